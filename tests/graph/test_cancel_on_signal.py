"""Workers that are told to end by a signal: the run stops and is stored, the process ends well, another one goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import worker_program
from cancelling import AT_ONCE, LIMIT
from drivers import AsyncRunner, SyncRunner
from graphs import chain

from blobcp import CancelToken, Interrupted, OptionError, cancel_on_signal


class Worker:
    """The program in a process of its own, once it is inside node 2."""

    def __init__(self, folder: Path, kind: str, seconds: str) -> None:
        self.folder = folder
        command = [sys.executable, worker_program.__file__, str(folder), kind, seconds]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._wait_for(lambda: "2" in entered(folder))

    def _wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT
        while not condition():
            assert self.process.poll() is None, self.process.communicate()[1]
            assert time.monotonic() < deadline, "the worker did not get there"
            time.sleep(0.01)

    def tell(self, number: int) -> None:
        """Send a signal and wait until it has arrived."""
        self.process.send_signal(number)
        self._wait_for((self.folder / "told").exists)

    def end(self) -> str:
        """Wait for the process to end well, and return what it printed."""
        printed, errors = self.process.communicate(timeout=LIMIT)
        assert self.process.returncode == 0, errors
        return printed.strip()


def entered(folder: Path) -> list[str]:
    """Return the nodes that were entered, in all processes."""
    log = folder / "log"
    return log.read_text().split() if log.exists() else []


def go_on(folder: Path, kind: str) -> object:
    """Resume in this process."""
    (folder / "go").touch()
    runner = AsyncRunner() if kind.startswith("async") else SyncRunner()
    return runner.resume(worker_program.build(folder, kind), "job")


@pytest.mark.parametrize("kind", ["sync", "async", "async-threads", "tools", "async-tools"])
class TestWorker:
    """Real processes that get real signals."""

    def test_waits_for_its_nodes(self, tmp_path: Path, kind: str) -> None:
        """Without a time-out, SIGTERM lets the node end; the worker stores the run and exits 0; a resume runs the rest."""
        worker = Worker(tmp_path, kind, "none")
        worker.tell(signal.SIGTERM)
        (tmp_path / "go").touch()

        assert worker.end() == "stopped ['2'] []"
        assert go_on(tmp_path, kind) == "in123"
        assert entered(tmp_path) == ["1", "2", "3"]

    def test_gives_up(self, tmp_path: Path, kind: str) -> None:
        """With a time-out, SIGTERM stops a worker whose node does not end: it stores the run and exits 0 all the same."""
        worker = Worker(tmp_path, kind, "0.1")
        worker.process.send_signal(signal.SIGTERM)

        assert worker.end() == "stopped [] ['2']"
        assert go_on(tmp_path, kind) == "in123"
        assert entered(tmp_path) == ["1", "2", "2", "3"]

    def test_a_second_signal(self, tmp_path: Path, kind: str) -> None:
        """A second signal gives up at once, whatever the time-out of the first; any of the signals named counts."""
        worker = Worker(tmp_path, kind, "none")
        worker.tell(signal.SIGUSR1)
        worker.process.send_signal(signal.SIGTERM)

        assert worker.end() == "stopped [] ['2']"
        assert go_on(tmp_path, kind) == "in123"


@pytest.mark.parametrize("kind", ["stream", "async-stream"])
def test_gives_up_in_a_stream(tmp_path: Path, kind: str) -> None:
    """SIGTERM stops a worker whose node does not come to its next chunk; it exits 0, and another goes on by values."""
    worker = Worker(tmp_path, kind, "0.1")
    worker.process.send_signal(signal.SIGTERM)

    assert worker.end() == "stopped [] ['2']"
    assert go_on(tmp_path, kind) == "in123"
    assert entered(tmp_path) == ["1", "2", "2", "3"]


def test_in_this_process() -> None:
    """The first signal cancels with the time-out, the second at once; after the block the old handler is back."""
    token = CancelToken()
    old = signal.getsignal(signal.SIGTERM)
    with cancel_on_signal(token, timeout=timedelta(hours=1)) as given:
        assert given is token
        os.kill(os.getpid(), signal.SIGTERM)
        assert token.cancelled
        time.sleep(0.05)  # the thread that listens as well hears of it, and does not count it again
        assert not token.due
        os.kill(os.getpid(), signal.SIGTERM)
        assert token.due

    assert signal.getsignal(signal.SIGTERM) is old


def test_on_a_running_loop() -> None:
    """In a coroutine, on a loop that waits for nothing else, a signal wakes the run that awaits it."""
    inside = threading.Event()

    async def main() -> list[str]:
        async def node(text: str) -> str:
            inside.set()
            await asyncio.sleep(3600)
            return text

        token = CancelToken()
        threading.Thread(
            target=lambda: inside.wait(LIMIT) and os.kill(os.getpid(), signal.SIGTERM), daemon=True
        ).start()
        with cancel_on_signal(token, timeout=AT_ONCE), pytest.raises(Interrupted) as caught:
            await asyncio.wait_for(chain("1", **{"1": node}).compile().ainvoke("x", cancel=token), LIMIT)
        return worker_program.stop_lists(caught.value)[1]

    assert asyncio.run(main()) == ["1"]


def test_a_signal_that_the_main_thread_does_not_see() -> None:
    """A signal is heard while the main thread is in the middle of something that runs no Python."""
    token = CancelToken()
    heard = threading.Event()
    token.attach(heard.set)
    cancelled: list[bool] = []
    with cancel_on_signal(token):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # another thread gets it, as it may
        try:
            other = threading.Thread(target=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM]))
            os.kill(os.getpid(), signal.SIGTERM)
            other.start()
            cancelled.append(heard.wait(LIMIT))
            other.join(LIMIT)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])

    assert cancelled == [True]


def test_it_gets_on_with_asyncio() -> None:
    """Signals that an event loop listens for itself still reach it, before, during and after the block."""

    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        heard: asyncio.Queue[str] = asyncio.Queue()
        loop.add_signal_handler(signal.SIGUSR1, heard.put_nowait, "loop")
        got: list[str] = []
        for _ in range(2):
            token = CancelToken()
            with cancel_on_signal(token):
                os.kill(os.getpid(), signal.SIGUSR1)
                got.append(await asyncio.wait_for(heard.get(), LIMIT))
                assert not token.cancelled
            os.kill(os.getpid(), signal.SIGUSR1)
            got.append(await asyncio.wait_for(heard.get(), LIMIT))
        loop.remove_signal_handler(signal.SIGUSR1)
        return got

    assert asyncio.run(main()) == ["loop"] * 4


def test_the_old_handlers_come_back_after_an_error() -> None:
    """An exception leaves the block as it is, and the handlers are put back."""
    old = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)}
    with pytest.raises(ZeroDivisionError), cancel_on_signal(CancelToken(), *old):
        raise ZeroDivisionError

    assert {number: signal.getsignal(number) for number in old} == old


def test_only_in_the_main_thread() -> None:
    """In another thread it is refused, with what to do."""
    problems: list[str] = []

    def use() -> None:
        try:
            with cancel_on_signal(CancelToken()):
                pass
        except OptionError as error:
            problems.append(str(error))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join(LIMIT)

    assert len(problems) == 1
    assert problems[0].startswith("cancel_on_signal can't catch")
    assert problems[0].endswith("use it in the main thread")


def test_what_can_not_be_caught() -> None:
    """A signal that can't be caught is refused, and those before it are put back."""
    old = signal.getsignal(signal.SIGTERM)
    with (
        pytest.raises(OptionError, match=r"can't catch \(.*SIGKILL: 9>\) here"),
        cancel_on_signal(CancelToken(), signal.SIGTERM, signal.SIGKILL),
    ):
        pass

    assert signal.getsignal(signal.SIGTERM) is old


def test_what_is_no_timeout() -> None:
    """P6: a time-out that is none is refused before a signal comes."""
    with pytest.raises(OptionError, match="is no time-out"), cancel_on_signal(CancelToken(), timeout=timedelta(-1)):
        pass
