"""An example. Put your own spiders beside it: workers serve every spider in this folder."""

from shoal import Spider

spider = Spider("books", start="https://books.toscrape.com/", rate=2)


@spider.handler  # the first handler gets the start URLs
def listing(page):
    yield from page.follow_all("article h3 a", book)
    yield from page.paginate("li.next a")


@spider.handler(key="upc")  # one row per UPC, however often it is met
def book(page):
    yield {
        "upc": page.text("table td"),
        "title": page.text("h1"),
        "price": page.text(".product_main .price_color"),
        "url": page.url,
    }
