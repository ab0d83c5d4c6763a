"""Stands between a Postgres store and its server: counts what is asked, and loses what is answered."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

__all__ = ["PostgresProxy", "proxied"]

LIMIT = 30
"""How long, in seconds, a test waits for what the proxy does."""


class PostgresProxy:
    """A TCP proxy that reads along.

    Attributes:
        url: the server's, through the proxy and without TLS.
        connections: how many were opened.
        asked: how many times the client waited for an answer to a statement.
        lose_reply: set it and the next answer is thrown away and its connection broken; ``lost`` is set then.
        before_loss: called when that answer has come, before the connection breaks.
        mute: set it and answers are thrown away from now on, while connections stay.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        place = f"{parts.username}:{parts.password}@127.0.0.1:{self._listener.getsockname()[1]}"
        query = "&".join(filter(None, (parts.query, "sslmode=disable&gssencmode=disable")))
        self.url = urlunsplit(parts._replace(netloc=place, query=query))
        self.connections = 0
        self.asked = 0
        self.lose_reply = threading.Event()
        self.lost = threading.Event()
        self.mute = threading.Event()
        self.before_loss = lambda: None
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Break all connections and take no more."""
        for each in (self._listener, *self._sockets):
            _shut(each)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            server = socket.create_connection(self._server)
            self._sockets += [client, server]
            threading.Thread(target=self._forth, args=(client, server), daemon=True).start()
            threading.Thread(target=self._back, args=(client, server), daemon=True).start()

    def _forth(self, client: socket.socket, server: socket.socket) -> None:
        messages = b""
        started = False
        while data := _receive(client):
            messages += data
            # A message is a letter, a length that counts itself, and the rest; the first one has no letter.
            while len(messages) >= 5:
                letter = int(started)
                end = letter + int.from_bytes(messages[letter : letter + 4], "big")
                if len(messages) < end:
                    break
                self.asked += started and messages[:1] in (b"Q", b"S")
                started, messages = True, messages[end:]
            _send(server, data)
        _shut(server)

    def _back(self, client: socket.socket, server: socket.socket) -> None:
        while data := _receive(server):
            if self.mute.is_set():
                continue
            if self.lose_reply.is_set():
                self.lose_reply.clear()
                self.before_loss()
                _shut(client)
                _shut(server)
                self.lost.set()
                return
            _send(client, data)
        _shut(client)


@contextmanager
def proxied(url: str) -> Iterator[PostgresProxy]:
    """Open a proxy to a server, for the time of a ``with``."""
    proxy = PostgresProxy(url)
    try:
        yield proxy
    finally:
        proxy.close()


def _receive(source: socket.socket) -> bytes:
    try:
        return source.recv(65536)
    except OSError:
        return b""


def _send(target: socket.socket, data: bytes) -> None:
    try:
        target.sendall(data)
    except OSError:
        _shut(target)


def _shut(each: socket.socket) -> None:
    try:
        each.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it is shut already
    finally:
        each.close()
