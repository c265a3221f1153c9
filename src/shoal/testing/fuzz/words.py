"""What the inputs of each target are made of: the words that its grammar knows, and what goes wrong beside them."""

from __future__ import annotations

# fmt: off
_ODD = (
    b"\xff", b"\xed\xa0\x80", b"\xc3", b"\xef\xbb\xbf", b"\xe2\x80\xae", b"\0", b"\r\n", b"\n", b"\t", b" ",
    b"\x85",
)
URLS = (
    b"http://", b"https://", b"HTTPS:", b"//", b"\\\\", b"javascript:", b"mailto:", b"data:,", b"file:///",
    b"blob:", b"a.example", b"xn--", b"xn--bcher-kva", "bücher.example".encode(), b"[::1]",
    b"[fe80::1%25en0]", b"127.1", b"0x7f.1", b"0177.0.0.1", b"2130706433", b"169.254.169.254",
    "１２７.0.0.1".encode(), "。".encode(), b"..", b".", b"user:s3cret@", b"@", b":", b":80", b":443",
    b":99999", b":0", b"/", b"/./", b"/../", b"/%2e%2e/", b"%2F", b"%", b"%%", b"%41", b"%7e", b"%zz",
    b"%00", b"%c3%28", b"?", b"&", b"=", b"#", b";", b";jsessionid=1", b"utm_source=x", b"sid=", b"a" * 63,
    b"0123456789abcdef" * 2, b"page=2", b"/page/10001", b"/calendar/2050/1", b"year=2051&month=1", b"/a/b",
    *_ODD,
)
ROBOTS = (
    b"User-agent: ", b"User-agent: *\n", b"User-agent: Shoal\n", b"user-agent:*\n", b"Disallow: ",
    b"Disallow: /\n", b"Allow: ", b"Allow: /a*b$\n", b"Crawl-delay: ", b"Crawl-delay: 1e309\n",
    b"Crawl-delay: nan\n", b"Crawl-delay: -1\n", b"Sitemap: ", b"Request-rate: 1/5\n",
    b"Request-rate: 1/0 1200-2500\n", b"Visit-time: 0600-0845\n", b"Host: ", b"*", b"$", b"**", b"/*", b"#",
    b":", b"%2a", b"%zz", b"?", b"[", b"(", b"\\", *_ODD,
)
TIMES = (
    b"120", b"1e9", b"nan", b"inf", b"-5", b"0x10", b"1.5", b"Wed, 21 Oct 2026 07:28:00 GMT", b"Mon",
    b"Feb", b"99", b"Sunday, 06-Nov-94 08:49:37 GMT", b"Sun Nov  6 08:49:37 1994", b"+9999", b"-2400", b"*",
    b"*/", b"/0", b",", b"-", b"1-5", b"jan", b"mon", b"31 2", b"29 2", b" ", b":", "١٢".encode(), *_ODD,
)
ENCODINGS = (
    b"charset=", b"charset", b"text/html; charset=", b"<meta ", b"<meta charset=", b'"', b"'", b";",
    b"utf-8", b"utf-16", b"utf-7", b"utf-32", b"latin1", b"shift_jis", b"gb2312", b"big5", b"iso-2022-jp",
    b"\x1b$B", b"\x1b(B", b"x-user-defined", b"base64", b"idna", b"undefined", b"rot13", b"unicode_escape",
    b"punycode", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\xd8\x00", b"\x00\xd8", b"\x81", b"\xfe\xa0",
    b"http-equiv=content-type content=", b">", *_ODD,
)
HTML = (
    b"<", b">", b"/>", b"</", b"<!--", b"-->", b"<!---->", b"<!doctype html>", b"<?xml", b"<![CDATA[",
    b"]]>", b"&", b"&#", b"&#xD800;", b"&#x110000;", b"&amp;", b"&notin;", b"=", b'"', b"'", b" a1",
    b"<a/b=", b"<a href=", b"</a>", b"<b>", b"</b>", b"<i>", b"</i>", b"<b></i>", b"<font size=1>", b"<p>",
    b"</p>", b"<div>", b"</div>", b"<table>", b"<tr>", b"<td>", b"<select>", b"<option>", b"<svg>",
    b"<svg></x>", b"<svg><style>", b"<math>", b"<mi>", b"<rt>", b"<ruby>", b"<rp>", b"<script>",
    b"</script>", b"<style>", b"</style>", b"<noscript>", b"<template>", b"<title>", b"</title>",
    b"<textarea>", b"<plaintext>", b"<xmp>", b"<iframe>", b"<frameset>", b"<base href=",
    b"<link rel=canonical href=", b"<form>", b"<li>", b"<meta name=description content=",
    b"<body a1 a2 a3>", b"<html lang=", b"<head>", b"<nobr>", b"<marquee>", b"<object>", b"http://", b"//x",
    b"javascript:", b"text/html", b"application/octet-stream", *_ODD,
)
XML = (
    b"<?xml version='1.0'", b" encoding='", b"'?>", b"<!DOCTYPE a [", b"<!ENTITY x '", b"<!ENTITY % p SYSTEM", b"]>",
    b"&x;", b"&nbsp;", b"&#0;", b" xmlns='", b" xmlns:m='", b"<m:a", b" m:b='", b"<rss>", b"<item>", b"<link>",
    b"</link>", b"</item>", b"<feed xmlns='http://www.w3.org/2005/Atom'>", b"<?a", b"?>", b"<html>", b"<script/>",
    *HTML,
)
STRUCTURED = (
    b"{", b"}", b"[", b"]", b'"', b"'", b":", b",", b"//", b"/*", b"*/", b"\\", b"\\ud800", b"\\u0000", b"1e999", b"-1",
    b'"@type":"Product"', b'"@type":["Product","Event"]', b'"@type":"Recipe"', b'"@type":"JobPosting"',
    b'"@type":"NewsArticle"', b'"@type":"BreadcrumbList"', b'"@graph":[', b'"@id":"#a"', b'{"@id":"#a"}', b'"@value":',
    b'"@list":[', b'"name":', b'"offers":', b'"price":', b'"priceCurrency":"EUR"', b'"availability":"InStock"',
    b'"hasVariant":[', b'"priceSpecification":', b'"aggregateRating":{"ratingValue":', b'"image":', b'"url":',
    b'"datePublished":"2026-01-01T00:00Z"', b'"itemListElement":[', b'"recipeInstructions":', b'"baseSalary":', b"NaN",
    b"<div itemscope itemtype=http://schema.org/Product>", b"<p itemprop=name>", b"<p itemprop=price>",
    b"<div itemscope itemprop=offers>", b" itemref='a b'", b" id=a", b"<div vocab=http://schema.org/ typeof=Product>",
    b"<p property=name>", b" resource=#a",
    b" prefix='s: http://schema.org/'", b"<meta property=og:type content=product>",
    b"<meta property=product:price:amount content='1,5 EUR'>", b"<meta name=twitter:data1 content=x>", b"</div>", b">",
    b"<script type=application/ld+json>", b"</script>", b"<html lang=sv>", *_ODD,
)
PRICES = (
    b"1", b"0", b"999", b"000", b".", b",", b"'", b" ", "\u00a0".encode(), "\u202f".encode(), b"-", "–".encode(), b"%",
    b"$",
    "€".encode(), "£".encode(), "¥".encode(), b"kr", b"Rs.", b"EUR", b"USD", b"CHF", "zł".encode(), "руб.".encode(),
    "١٢".encode(), "१".encode(), "１".encode(), b"from ", b"free", b"sold out", b"in stock", b"ausverkauft",
    b"http://schema.org/", b"InStock", b"2026-01-02", b"T10:00:00Z", b"+02:00", b"Jan", b"2 May 2026", b"PT1H", b"\n",
    *_ODD,
)
HEADERS = (
    b"200\n", b"301\n", b"304\n", b"403\n", b"429\n", b"503\n", b"0\n", b"999\n", b"9999\n", b"\n\n", b": ",
    b"\nLocation: ", b"\nRetry-After: ", b"\nSet-Cookie: k=s3cret", b"\nset-cookie: s3cret",
    b"\nContent-Type: ", b"\nCF-Mitigated: challenge", b"\nServer: ", b"//user:s3cret@host/", b"<script",
    b"<title>", b"captcha", b"Just a moment", b"<form", b"password", b"datadome", b"<div id=root>",
    b"<noscript>", b"<!--", b"-->", b"Access denied", *_ODD,
)
COOKIES = (
    b"a=1", b"a=s3cret", b"; Domain=", b"; Domain=.example", b"; Domain=a.example", b"; Domain=com",
    b"; Domain=b.example", b"; Domain=10.0.0.1", b"; Path=/", b"; Path=", b"; Path=/dir", b"; Secure",
    b"; HttpOnly", b"; Max-Age=", b"; Expires=", b"Thu, 01 Jan 1970 00:00:00 GMT",
    b"Wed, 31 Dec 9999 23:59:59 GMT", b"; SameSite=None", b"__Host-a=1", b"__Secure-a=1", b"=", b";", b",",
    b'"', b'"\\073"', b"$Version=1", b"\\012", *_ODD,
)
HTTP = (
    b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 200\r\n", b"HTTP/1.1 ", b"HTTP/9.9 200 OK\r\n",
    b"100 Continue\r\n\r\n", b"103 \r\n\r\n", b"101 Switching Protocols\r\n", b"204 No Content\r\n",
    b"304 Not Modified\r\n", b"ICY 200 OK\r\n", b"\r\n\r\n", b"\r\n", b"\n", b"Content-Length: ",
    b"Content-Length: 5\r\n", b"Content-Length: -1\r\n", b"Content-Length: 5, 5\r\n",
    b"Content-Length: +5\r\n", b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n",
    b"Transfer-Encoding: ", b"5\r\nhello\r\n0\r\n\r\n", b"Content-Encoding: gzip\r\n",
    b"Content-Encoding: br\r\n", b"Content-Encoding: zstd\r\n", b"Content-Encoding: deflate\r\n",
    b"Content-Encoding: ", b"Connection: keep-alive\r\n", b"Connection: close\r\n", b"Set-Cookie: a=1\r\n",
    b"Location: ", b"Content-Type: text/html\r\n", b"Upgrade: h2c\r\n", b": \r\n", b" folded\r\n", b"X: ",
    b"ffffffffffffffff\r\n", b"0\r\n", b";ext=1", b"\x1f\x8b\x08\x00", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.1\r\n", *_ODD,
)
VALUES = (
    b"\x00", b"\x01", b"\x03", b"\x83", b"\xc7", b"\xff" * 8, b"\x80", b"\x90", b"\xc0", b"\xc1",
    b"\xdc\xff\xff", b"\xdf", b"\xd9\xff", b"\xdb\xff\xff\xff\xff", b"\xcf" + b"\xff" * 8,
    b"\xcb\x7f\xf8" + b"\0" * 6, b"\xa4page", b"\x81\xa4meta", b"\xed\xa0\x80", "✓".encode(), b"\x05hello",
    b"*3\r\n$3\r\n", b"redis.call('FLUSHALL')", b"{job}", b"}", b"nan", *_ODD,
)
SETTINGS = (
    b"rate", b"proxies", b"headers", b"allow_network", b"lanes", b"max_pages", b"policies", b"cookies",
    b"handle_status", b"=", b" = ", b"\n", b"[", b"]", b"{", b"}", b'"', b'"""', b"'", b",", b"true",
    b"null", b"nan", b"inf", b"1_000", b"0x", b"2026-01-01", b"[[a]]", b"[a.b]", b"\\u0000", b"\\ud800",
    b"1e400", b"none", b"#", b"[" * 64, *_ODD,
)
ADDRESSES = (
    b"user:s3cret@", b":s3cret@", b"@", b":", b"host", b"[::1]", b"[", b"]", b":6379", b":99999", b":x",
    b"/0", b"/service/1", b"?", b"&", b"=", b"#", b"%2F", b"%", b",", b"shards=0",
    b"shards=99999999999999999999", b"prefix=", b"db=-1", b"ca=", b"history=1", b"history=x",
    b"password=s3cret", b"sslmode=", *_ODD,
)
# fmt: on
