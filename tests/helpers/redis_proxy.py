"""A TCP proxy in front of a Redis server that loses what a test says, as a network does."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["LossyProxy", "lossy_proxy"]

LIMIT = 10.0


class LossyProxy:
    """Passes bytes both ways, and breaks connections where it is told to.

    Args:
        port: where the server listens on loopback.

    Attributes:
        lost: how many answers it has withheld.
    """

    def __init__(self, port: int) -> None:
        self._server = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._losing: list[tuple[bytes, int, Callable[[], object]]] = []
        self._stopped = threading.Event()
        self.lost = 0

    @property
    def url(self) -> str:
        """Where it stands in for the server."""
        return f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"

    def lose_answer(self, word: bytes, *, passing: int = 0, then: Callable[[], object] = lambda: None) -> None:
        """Break the connection once the server has answered the next command that has this word in it.

        Args:
            word: the name of the command.
            passing: how many bytes of the answer still come through.
            then: called while the answer is lost, before the client can know of it.
        """
        self._losing.append((word, passing, then))

    def run(self) -> None:
        """Serve until ``stop`` is called."""
        threads = []
        with self._listener:
            while not self._stopped.is_set():
                if select.select([self._listener], [], [], 0.01)[0]:
                    client, _ = self._listener.accept()
                    threads.append(threading.Thread(target=self._serve, args=(client,)))
                    threads[-1].start()
        for thread in threads:
            thread.join(LIMIT)

    def stop(self) -> None:
        """End all connections."""
        self._stopped.set()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._server, LIMIT) as server:
            losing = None
            while not self._stopped.is_set():
                for source in select.select([client, server], [], [], 0.01)[0]:
                    data = _received(source)
                    if not data:
                        return
                    if source is client:
                        losing = losing or self._taken(data)
                        server.sendall(data)
                    elif losing is None:
                        client.sendall(data)
                    else:
                        _, passing, then = losing
                        client.sendall(data[:passing])
                        then()
                        self.lost += 1
                        return

    def _taken(self, data: bytes) -> tuple[bytes, int, Callable[[], object]] | None:
        for losing in self._losing:
            if losing[0] in data:
                self._losing.remove(losing)
                return losing
        return None


@contextmanager
def lossy_proxy(port: int) -> Iterator[LossyProxy]:
    """Run a proxy in front of a server."""
    proxy = LossyProxy(port)
    thread = threading.Thread(target=proxy.run)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.stop()
        thread.join(LIMIT)


def _received(source: socket.socket) -> bytes:
    try:
        return source.recv(65536)
    except ConnectionError:
        return b""
