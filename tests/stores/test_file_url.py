from __future__ import annotations

from pathlib import Path

import pytest

from blobcp.errors import StoreError, StoreUrlError
from blobcp.stores import FileStore
from blobcp.stores.opening import open_store


def test_a_relative_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """file:./dir is a folder below the current one, made where it is missing."""
    monkeypatch.chdir(tmp_path)

    for url in ("file:./some/dir", "file:some/dir"):
        store = open_store(url)

        assert isinstance(store, FileStore)
        assert (store.folder, store.durable, store.lock_timeout) == (tmp_path / "some" / "dir", True, 30.0)
        assert store.folder.is_dir()


def test_an_absolute_folder(tmp_path: Path) -> None:
    """file:///dir and file:/dir are a folder from the root on."""
    for url in (f"file://{tmp_path}/x", f"FILE:{tmp_path}/x"):
        store = open_store(url)

        assert isinstance(store, FileStore)
        assert store.folder == tmp_path / "x"


def test_what_is_quoted_is_read(tmp_path: Path) -> None:
    """Percent signs quote what a URL can't hold."""
    store = FileStore.from_url(f"file:{tmp_path}/a%20b%3Fc%23d%25e%C3%A9")

    assert store.folder == tmp_path / "a b?c#d%eé"


def test_options(tmp_path: Path) -> None:
    """Whether to flush and how long to wait stand behind the question mark."""
    store = FileStore.from_url(f"file:{tmp_path}?durable=false&lock_timeout=2.5")

    assert (store.folder, store.durable, store.lock_timeout) == (tmp_path, False, 2.5)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("file://host/dir", r"names a host, 'host'; for a folder say file:\./dir or file:///dir"),
        ("file://dir", "names a host, 'dir'"),
        ("file://localhost/dir", "names a host, 'localhost'"),
        ("file:", "names no folder; say"),
        ("file:?durable=false", "names no folder; say"),
        ("file:a%00b", "names no folder; say"),
        ("file:./dir#part", "has a '#'"),
        ("file:./dir#", "has a '#'"),
        ("file:./dir?durable=perhaps", "durable='perhaps' can't be taken: say true or false"),
        ("file:./dir?lock_timeout=soon", "lock_timeout='soon' can't be taken: could not convert"),
        ("file:./dir?sync=true", "has the unknown option 'sync'; known are: durable, lock_timeout"),
    ],
)
def test_what_names_no_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, said: str) -> None:
    """A URL with a host, without a folder or with what the store does not know is refused, and nothing is made."""
    monkeypatch.chdir(tmp_path)

    with pytest.raises(StoreUrlError, match=said):
        FileStore.from_url(url)

    assert [*tmp_path.iterdir()] == []


def test_a_wait_without_limit_is_refused(tmp_path: Path) -> None:
    """A time-out in the URL is checked as any other."""
    for seconds in ("0", "inf", "nan"):
        with pytest.raises(StoreError, match="is no time to wait"):
            FileStore.from_url(f"file:{tmp_path}?lock_timeout={seconds}")
