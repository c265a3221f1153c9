"""Answers that fuzzing found: half a host in a redirect of robots.txt, cookies that talk to stderr, endless details."""

from __future__ import annotations

from attacks.stage import Stage, Villain, html

REDIRECT = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: %b\r\n\r\n"
ODD_COOKIES = b"".join(b"Set-Cookie: a b%d=\xff\r\n" % n for n in range(100))


def test_odd_bytes_cost_no_more_than_their_page(stage: Stage, twice: float) -> None:
    answers = {
        "/robots.txt": REDIRECT % b"//[]@",
        "/cookies": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + ODD_COOKIES + b"\r\nok",
        "/bytes": html(b"<title>\xff&#xD800;</title>", "text/html; charset=\xff"),
        "/far": REDIRECT % (b"http://elsewhere.example/" + b"\xc3\xa9" * 3_000),
    }
    with Villain(answers) as villain:
        result = stage.crawl(*villain.urls)
        stage.check_honest(result, at_most=twice)
        assert {villain.url("/cookies"), villain.url("/bytes")} <= set(result.rows), (
            "robots.txt forbids nothing"
        )
        assert result.kinds(villain.url("/far")) == {"policy": 1}
        [letter] = [letter for letter in result.letters if letter["url"] == villain.url("/far")]
        assert len(letter["attempts"][-1]["detail"]) < 2_200
        assert "Can not load cookies" not in result.err
        assert "Traceback" not in result.err
