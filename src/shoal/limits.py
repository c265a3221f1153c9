"""Fixed limits for everything that a server, a page or a handler can make large.

Each line: what is limited, why this number, and what happens beyond it. Limits that a person may want to change are
settings (settings/__init__.py). docs/limits.md has the same table, settings included; a test compares the two.
"""

from __future__ import annotations

KB = 1024
MB = 1024 * KB

# -- an answer's head
HEADER_LINES = 5_000  # header lines of an answer, as in curl. Beyond: `protocol`
ANSWER_HEADERS = 256 * KB  # bytes of all headers of an answer, as in browsers. Beyond: `protocol`
INTERIM_ANSWERS = 20  # answers of status 1xx before the real one: usual are none or one. Beyond: `flood`

# -- an answer's body
CONTENT_ENCODINGS = 5  # content encodings of a body, one around the other, as in curl. Beyond: `encoding`
ZSTD_FRAMES = 1_000  # zstd frames of a body that hold nothing: some 0.01 s of work. Beyond: `encoding`
ZSTD_SHARE = 64  # decoded bytes that pay for one frame more: compressors write larger ones

# -- HTTP/1.1
CHUNK_LINE = 16 * KB  # bytes of the line that gives the size of a chunk, as in browsers. Beyond: `flood`
BODY_OVERHEAD = 512 * KB  # bytes besides the body (headers, chunk sizes), plus half of it. Beyond: `flood`

# -- HTTP/2
FRAME_BYTES = 16 * KB  # bytes of a frame: what HTTP/2 starts with, and we offer no more. Beyond: `protocol`
SETTINGS_FRAME = 600  # bytes of a SETTINGS frame: 100 settings; fewer than 10 are defined. Beyond: `flood`
EMPTY_FRAMES = 2_000  # frames of an exchange that carry nothing: some 0.05 s of work. Beyond: `flood`
FRAME_COST = 1 * KB  # bytes of such a frame that count as one more: so at most 2 MB carry nothing
FRAME_SHARE = 64  # bytes of a body that pay for one frame: no server sends a whole page in smaller frames

# -- cookies that a redirect sets: stored with the task, because another process may fetch the next page
REDIRECT_COOKIES = 50  # Set-Cookie lines, the least that RFC 6265bis asks for. Beyond: dropped, and counted
REDIRECT_COOKIE_BYTES = (
    16 * KB
)  # in all: servers accept no longer Cookie header. Beyond: dropped, and counted
COOKIE_LINE = 5 * KB  # of one: RFC 6265bis has 4,096 bytes for name and value. Beyond: dropped, and counted

# -- cookies of sessions and sites, in the store
SESSION_NOTE = (
    64 * KB
)  # bytes of the cookies of a session, or of a site. Beyond: the oldest dropped, and counted

# -- requests of a handler: stored with the task, perhaps a million times
REQUEST_META = 256 * KB  # bytes of `meta`, stored: it is for a few values. Beyond: the page ends as `junk`
REQUEST_META_DEPTH = 64  # nested containers in `meta`: it can surely be read back. Beyond: `junk`
REQUEST_HEADERS = 32 * KB  # bytes of a request's own headers: servers accept 8 to 16. Beyond: `junk`
REQUEST_BODY = 4 * MB  # bytes of a request's body: forms and queries are short. Beyond: `junk`
PAGE_REQUESTS = 64 * MB  # bytes of all of these for one page, which are settled together. Beyond: `junk`
REQUEST_NUMBER = 2**31 - 1  # of priority, depth and max_attempts: what all stores can keep. Beyond: `junk`
REQUEST_WORD = 200  # characters of a method, pool or handler name. Beyond: `junk`

# -- what is read of a body
XML_TAGS = 1_000_000  # "<" in an XML document: a sitemap of 50,000 URLs has half as many. Beyond: cut
RECORDS = 1_000  # records of a page in one syntax: lists have some hundred products. Beyond: left out
JSONLD_OBJECTS = 10_000  # objects of JSON-LD on a page. Beyond: left out
DESCRIBED = 50_000  # elements with microdata or RDFa: an item has some ten. Beyond: not read
META_ELEMENTS = 5_000  # <meta> of a page: usual are fifty. Beyond: not read

# -- sitemaps and feeds
SITEMAP_BYTES = 64 * MB  # bytes of one, unpacked: the protocol has 50 MB. Beyond: cut, and counted
SITEMAP_ENTRIES = 5_000  # entries that are queued at once. Beyond: it is fetched again for the next ones
SITEMAP_DEPTH = 5  # indexes in one another: the protocol has one. Beyond: passed over, and counted
FEED_JSON = 16 * MB  # characters of a JSON Feed, which is read as a whole. Beyond: dead letter
ENTRY_ELEMENTS = 10_000  # elements of an entry: 1,000 images have some. Beyond: left out, and counted
ENTRY_TEXT = 8 * KB  # characters of a text in an entry: URLs are shorter. Beyond: cut, and counted
ENTRY_LISTED = 1_000  # images, videos, translations of an entry, as in the protocol. Beyond: left out
ENTRY_META = (
    16 * KB
)  # bytes of what an entry says that are queued with its URL. Beyond: left out, and counted

# -- what a crawl without code writes of a page. Beyond: left out, and named in the row's field `cut`
SHORT_TEXT = 300  # characters of a heading, an anchor or an alt: search engines show no more. Beyond: cut
SHORT_TEXT_STEPS = 300_000  # elements that are looked at for all of them: some 0.2 s. Beyond: empty
ROW_HEADINGS = 2_000  # headings: the longest documents have as many. Beyond: left out
ROW_IMAGES = 10_000  # images. Beyond: left out
ROW_META = 200  # values of <meta>: usual are thirty. Beyond: left out
ALTERNATES = 1_000  # other languages of a page: there are some 200 in use. Beyond: left out
LINKED_PARTS = 20_000  # ids of a page that `--check-anchors` knows. Beyond: its anchors are not checked
MAIN_TEXT = 5 * MB  # characters of markup whose main text is looked for. Beyond: cut
MAIN_TEXT_SECONDS = 10  # of CPU for it: a page takes 0.01. Beyond: the page has none
MAIN_TEXT_MEMORY = 2 * 1024 * MB  # bytes for it. Beyond: the page has none

# -- what a handler yields
YIELDED = 2_000_000  # values for one page: more than any page can hold. Beyond: `junk`
ROW_BYTES = 64 * MB  # bytes of an item as JSON: a page of max_body fits several times. Beyond: rejected
REJECTED_ITEMS = 10_000  # items of a page that are rejected, which are settled together. Beyond: `junk`
PAGE_REJECTED = 64 * MB  # bytes that are kept of all of them. Beyond: `junk`
REJECTED_ITEM = 1 * MB  # bytes of a rejected item that are kept. Beyond: cut, so it cannot be replayed
PAGE_ROWS = 256 * MB  # bytes of all items of a page, which are in memory together. Beyond: `junk`
# Of a CSV file, made by rows: each makes every row longer, and a new one means to copy the file. Beyond: in one column
CSV_COLUMNS = 500
CSV_NAME = (
    255  # characters of the name of such a column, which may come from a page. Beyond: in the same column
)

# -- what a standing job remembers of a page's items between two visits. Beyond: changes are told without old values
KEPT_PAGE = 16 * KB  # bytes for all items of a page: there may be a million pages. Beyond: only their digests
KEPT_ITEM = 256 * KB  # bytes of an item before it is compressed. Beyond: only its digest
KEPT_IDENT = 200  # characters of an item's key. Beyond: only its digest

# -- counters of a spider, kept with its job
COUNTER_NAMES = 200  # names of a job: each is a time series of its metrics. Beyond: counted as "(other)"
COUNTER_NAME = 100  # characters of a name. Beyond: `junk`
COUNTER_STEP = 10**12 - 1  # what a page may add to one: a terabyte. Beyond: `junk`
COUNTER_MOST = 2**53 - 1  # of a counter: up to here JSON and Lua are exact. Beyond: it stays there

# -- the state of a spider, which every change reads and writes as a whole
STATE_BYTES = 64 * KB  # bytes of all values as JSON. Beyond: `junk`
STATE_NAME = 100  # characters of a name. Beyond: `junk`

# -- what a handler fetches itself
PAGE_FETCHES = 1_000  # calls of `page.fetch` for one page: a list has its own requests. Beyond: `junk`

# -- URLs
WEBHOOK_BODY = (
    128 * KB
)  # bytes of the changes in one delivery. Beyond: several; a longer change has no values
WEBHOOK_CHANGES = 500  # changes in one delivery. Beyond: several
URL_READ = 4  # times max_url_length: longer URLs are refused unread, since parsing costs time too
START_LINE = (
    1 * MB
)  # characters of a line in a list of URLs: JSON with a `meta` fits. Beyond: refused, counted
URL_SHOWN = 200  # characters of a refused URL that are shown. Beyond: cut

# -- what is kept about failures
LOG_MESSAGE = 16 * KB  # characters of a log line of a spider: it may be a whole page. Beyond: cut
DETAIL = 500  # characters of a failure's detail, and of any text in an event or a log line. Beyond: cut
FETCH_DETAIL = 200  # … of a failed fetch: messages of servers and libraries tend to be long. Beyond: cut
HISTORY = 50  # failures of a task; only replays by hand exceed max_attempts. Beyond: the oldest are dropped
SNAPSHOT_HEADER = 1_000  # characters of a header in a snapshot. Beyond: cut
SNAPSHOT_HEADERS = 16 * KB  # characters of all headers in a snapshot. Beyond: dropped, as the snapshot says
LETTERS_TOLD = 1_000  # dead letters that wait for `on_dead_letter` hooks. Beyond: not told, and counted
TRACEBACK = 16 * KB  # characters of the end of a handler's traceback: a message may hold a page. Beyond: cut

# -- what an operator sets
HOST_TABLES = 10_000  # settings for hosts, of a job or of a store: all are read with the job. Beyond: refused
ARGUMENTS = 4_000  # characters of a spider's arguments, which are noted with the job. Beyond: refused

# -- spiders that are written as TOML
TOML_FILE = 16 * MB  # bytes of a file: 10,000 sites with fields of their own. Beyond: refused
FIELD_VALUES = 10_000  # values of a field, or objects of `each`, on one page. Beyond: cut, and counted
# Times that elements are read, on average: those inside others each time. Beyond: cut, and counted
FIELD_WORK = 20
VALIDATOR = 200  # characters of an ETag or Last-Modified that is sent back; a longer one is not kept
