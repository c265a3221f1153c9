"""A crawl inside a program: nothing is stored, the items come back.

Run it with `python examples/from_code.py https://books.toscrape.com/`.
"""

import sys
from collections import Counter

import shoal


def titles(url: str, pages: int = 20) -> list[dict[str, str]]:
    """The titles of up to `pages` pages of a site."""
    spider = shoal.Spider("titles", start=url, max_pages=pages)

    @spider.handler
    def page_title(page: shoal.Page):
        yield {"url": page.url, "title": page.text("title")}
        yield from page.follow_all("a")

    # In a program that has an event loop: results = await shoal.crawl(spider)
    results = shoal.run(spider)
    return list(results)


def main() -> None:
    found = titles(sys.argv[1] if len(sys.argv) > 1 else "https://books.toscrape.com/")
    for title, times in Counter(row["title"] for row in found).most_common(10):
        print(f"{times:4}  {title}")


if __name__ == "__main__":
    main()
