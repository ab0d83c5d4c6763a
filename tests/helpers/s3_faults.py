"""A small HTTP proxy on loopback that stands before an S3 server, notes what is asked, and spoils what it is told to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

__all__ = [
    "Exchange",
    "Fault",
    "FaultyProxy",
    "Request",
    "cut_off",
    "faulty",
    "lose_reply",
    "pass_on",
    "refuse",
    "stay_silent",
    "tamper",
    "wait_for",
]

LIMIT = 30.0
"""Seconds that anything here may take."""


@dataclass(frozen=True)
class Request:
    """What a client asked."""

    method: str
    path: str
    headers: Message
    body: bytes


@dataclass(frozen=True)
class Reply:
    """What the server answered."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Exchange:
    """One request, and what a fault can do with it."""

    def __init__(self, proxy: FaultyProxy, handler: BaseHTTPRequestHandler, request: Request) -> None:
        self.proxy = proxy
        self.request = request
        self._handler = handler

    def ask_server(self) -> Reply:
        """Carry the request out and return the reply, which the client does not get to see."""
        address = urlsplit(self.proxy.server)
        connection = HTTPConnection(address.hostname or "", address.port or 80, timeout=LIMIT)
        try:
            headers = {name: value for name, value in self.request.headers.items() if name.lower() != "expect"}
            connection.request(self.request.method, self.request.path, self.request.body, headers)
            reply = connection.getresponse()
            return Reply(reply.status, reply.getheaders(), reply.read())
        finally:
            connection.close()

    def answer(self, reply: Reply, *, send: int | None = None) -> None:
        """Give the client a reply; of its body only so many bytes, and then hang up."""
        length = len(reply.body)
        self._handler.send_response_only(reply.status)
        for name, value in reply.headers:
            if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                self._handler.send_header(name, value)
            elif name.lower() == "content-length" and self.request.method == "HEAD":
                length = int(value)
        self._handler.send_header("Content-Length", str(length))
        self._handler.end_headers()
        self._handler.wfile.write(reply.body[:send])
        if send is not None:
            self.hang_up()

    def hang_up(self) -> None:
        """Close the connection once the fault is done."""
        self._handler.close_connection = True


Fault = Callable[[Exchange], None]


class FaultyProxy:
    """The proxy.

    Attributes:
        server: the URL of the S3 server behind it.
        url: its own.
        seen: the requests that came, in order.
        ended: set when the proxy goes.
        stop: listen no more.
    """

    def __init__(self, server: str, port: int, stop: Callable[[], None]) -> None:
        self.server = server
        self.url = f"http://127.0.0.1:{port}"
        self.stop = stop
        self.seen: list[Request] = []
        self.ended = threading.Event()
        self._faults: dict[str, Iterator[Fault]] = {}
        self._lock = threading.Lock()

    def spoil(self, method: str, faults: Iterable[Fault]) -> None:
        """Do this with the next requests of a method, one each; what comes later passes."""
        self._faults[method] = iter(faults)

    def methods(self) -> list[str]:
        """Return the methods of the requests that came since the last call."""
        with self._lock:
            methods = [request.method for request in self.seen]
            self.seen.clear()
        return methods

    def take(self, exchange: Exchange) -> None:
        """Note a request and do with it what was planned."""
        with self._lock:
            self.seen.append(exchange.request)
            fault = next(self._faults.get(exchange.request.method, iter(())), pass_on)
        fault(exchange)


def pass_on(exchange: Exchange) -> None:
    """Do nothing to the exchange."""
    exchange.answer(exchange.ask_server())


def refuse(status: int, code: str, *, body: str = "") -> Fault:
    """Answer in the server's place with an error of S3, or with this body; an empty one if there is neither."""
    if code:
        body = f"<Error><Code>{code}</Code><Message>said by the proxy</Message></Error>"
    reply = Reply(status, [("Content-Type", "application/xml")], body.encode())
    return lambda exchange: exchange.answer(reply)


def cut_off(sent: int) -> Fault:
    """Let the request be carried out, promise the whole reply, and hang up after so many bytes of it."""
    return lambda exchange: exchange.answer(exchange.ask_server(), send=sent)


def wait_for(first: Callable[[], object]) -> Fault:
    """Do something else, and then let the request be carried out."""

    def fault(exchange: Exchange) -> None:
        first()
        pass_on(exchange)

    return fault


def lose_reply(then: Callable[[], object] = lambda: None) -> Fault:
    """Let the request be carried out, do something else, and hang up without a reply."""

    def fault(exchange: Exchange) -> None:
        exchange.ask_server()
        then()
        exchange.hang_up()

    return fault


def tamper(exchange: Exchange) -> None:
    """Change one bit of the reply's body."""
    reply = exchange.ask_server()
    exchange.answer(Reply(reply.status, reply.headers, bytes([reply.body[0] ^ 1]) + reply.body[1:]))


def stay_silent(exchange: Exchange) -> None:
    """Keep the connection and say nothing."""
    exchange.proxy.ended.wait(LIMIT)
    exchange.hang_up()


@contextmanager
def faulty(server: str) -> Iterator[FaultyProxy]:
    """Run a proxy before an S3 server."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = LIMIT

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            proxy.take(Exchange(proxy, self, Request(self.command, self.path, self.headers, body)))

        def log_message(self, format: str, *args: object) -> None:
            pass

    def stop() -> None:
        listener.shutdown()
        listener.socket.close()

    for method in ("GET", "PUT", "POST", "DELETE", "HEAD"):
        setattr(Handler, f"do_{method}", Handler.handle_any)
    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    proxy = FaultyProxy(server, listener.server_port, stop)
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.ended.set()
        stop()
        listener.server_close()
        thread.join(LIMIT)
