"""Two kinds of items from one site: quotes, and the people who said them.

    shoal crawl examples/quotes.py -o quotes.jsonl

QUOTES_URL names another site with the same markup.
"""

import os

from shoal import Page, Spider

spider = Spider("quotes", start=os.environ.get("QUOTES_URL", "https://quotes.toscrape.com/"))


@spider.handler
def quotes(page: Page):
    for quote in page.css("div.quote"):
        yield {
            "kind": "quote",
            "text": quote.css_first("span.text").text().strip("“”"),
            "author": quote.css_first("small.author").text(),
            "tags": [tag.text() for tag in quote.css("a.tag")],
        }
    # Many quotes link to the same author. The frontier admits each URL once.
    yield from page.follow_all("div.quote span a[href^='/author/']", author)
    yield from page.paginate("li.next a")


# Authors wait in a lane of their own: quotes go first, whenever both are waiting.
@spider.handler(key="name", lane="discovery")
def author(page: Page):
    yield {
        "kind": "author",
        "name": page.text("h3.author-title"),
        "born": page.text(".author-born-date"),
    }
