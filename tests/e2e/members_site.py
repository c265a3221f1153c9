"""A site for members only: a login with a CSRF token, sessions that end, and a log of every login."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs
from uuid import uuid4

PASSWORDS = {"anna": "annas-secret-7", "bob": "bobs-secret-8"}
PAGES = 15


class Members:
    """What the site does, and what has happened."""

    def __init__(self, *, outsiders: str = "redirect", requests: int = 0, pause: float = 0.0) -> None:
        self.outsiders = (
            outsiders  # what those get who are not logged in: "redirect", "elsewhere", "form" or "401"
        )
        self.requests = requests  # after so many, everybody is logged out; 0: never
        self.pause = pause  # seconds that a page takes
        self.login_pause = 0.0  # seconds that the answer to a login takes
        self.busy = 0  # how many more login pages are answered with 503
        self.refused = 0  # logins that were refused
        self.logins: Counter[str] = Counter()
        self.ended = 0  # sessions that the site has ended
        self.at_once: Counter[str] = Counter()  # the most logins of one user under way at the same time
        self.pages: Counter[str] = Counter()  # by path, those that a member got
        self.users: Counter[str] = Counter()  # … and by member
        self.secrets: set[str] = set()  # every session and token that was given out
        self.lock = threading.Lock()
        self._sessions: dict[str, str] = {}  # id -> user
        self._tokens: set[str] = set()
        self._under_way: Counter[str] = Counter()
        self._served = 0
        self.url = ""

    def is_busy(self) -> bool:
        with self.lock:
            self.busy -= 1
            return self.busy >= 0

    def token(self) -> str:
        with self.lock:
            token = f"csrf-{uuid4().hex}"
            self._tokens.add(token)
            return token

    def log_in(self, form: dict[str, list[str]]) -> str | None:
        user, password = form.get("user", [""])[0], form.get("password", [""])[0]
        with self.lock:
            self._under_way[user] += 1
            self.at_once[user] = max(self.at_once[user], self._under_way[user])
        time.sleep(self.login_pause)
        with self.lock:
            self._under_way[user] -= 1
            token = form.get("csrf", [""])[0]
            if token not in self._tokens or PASSWORDS.get(user) != password:
                self.refused += 1
                return None
            self._tokens.discard(token)
            session = f"sid-{uuid4().hex}"
            self._sessions[session] = user
            self.secrets.add(session)
            self.logins[user] += 1
            return session

    def member(self, cookies: str, path: str) -> str | None:
        with self.lock:
            sent = dict(part.split("=", 1) for part in cookies.split("; ") if "=" in part)
            user = self._sessions.get(sent.get("sid", ""))
            if user is None:
                return None
            self._served += 1
            if self.requests and self._served % self.requests == 0:
                self.ended += len(self._sessions)
                self._sessions.clear()
                return None
            self.pages[path] += 1
            self.users[user] += 1
            return user

    def end_sessions(self) -> None:
        with self.lock:
            self.ended += len(self._sessions)
            self._sessions.clear()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a body waits 40 ms for the client to confirm the head
    site: Members

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        site, path = self.site, self.path.partition("?")[0]
        if path == "/robots.txt":
            self._answer("", 404)
        elif path == "/login" and site.is_busy():
            self._answer("later", 503)
        elif path in ("/login", "/welcome"):
            self._answer(self._form())
        elif site.member(self.headers.get("Cookie", ""), path) is None:
            self._refuse()
        elif path == "/home":
            self._answer("".join(f'<a class=p href="/p/{n}">{n}</a>' for n in range(PAGES)))
        else:
            time.sleep(site.pause)
            self._answer(f"<h1>{path}</h1>")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        session = self.site.log_in(parse_qs(body))
        if session is None:
            self._answer("<p>wrong name or password</p>" + self._form())
        else:
            self._answer("", 302, {"Location": "/home", "Set-Cookie": f"sid={session}; Path=/; HttpOnly"})

    def _form(self) -> str:
        return (
            '<form id=login method=post action="/login"><input name=user><input type=password name=password>'
            f'<input type=hidden name=csrf value="{self.site.token()}"></form>'
        )

    def _refuse(self) -> None:
        if self.site.outsiders == "redirect":
            self._answer("", 302, {"Location": f"/login?next={self.path}"})
        elif self.site.outsiders == "elsewhere":
            self._answer("", 302, {"Location": "/welcome"})
        elif self.site.outsiders == "form":
            self._answer("<p>members only</p>" + self._form())
        else:
            self._answer("who are you?", 401)

    def _answer(self, text: str, status: int = 200, headers: dict[str, str] | None = None) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def serving(site: Members) -> Iterator[Members]:
    handler = type("Handler", (_Handler,), {"site": site})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        site.url = f"http://127.0.0.1:{server.server_address[1]}/"
        try:
            yield site
        finally:
            server.shutdown()
            thread.join()
