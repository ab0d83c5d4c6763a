"""``open_store``: a URL leads to its store, and whatever is wrong with it is said without giving a secret away."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from blobcp.errors import MissingExtraError, StoreError, StoreUrlError
from blobcp.stores import FileStore, MapStore, open_store
from blobcp.stores.extras import extra
from blobcp.stores.urls import boolean, options_of, shown

PLUGIN = """
[blobcp.stores]
memory = plugin:open_memory
{more}
"""


def install(folder: Path, name: str, more: str = "", code: str = "") -> None:
    """Put a distribution with entry points and a module ``plugin`` into a folder that is on ``sys.path``."""
    sys.modules.pop("plugin", None)  # that of another test
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(PLUGIN.format(more=more))
    (folder / "plugin.py").write_text(
        f"from blobcp.stores import MapStore\ndef open_memory(url):\n    store = MapStore(); store.url = url; return store\n{code}"
    )


def test_opens_a_file_store(tmp_path: Path) -> None:
    """``file:`` and a path open the store in that folder."""
    FileStore(tmp_path / "blobs").set("a", b"1")

    assert open_store(f"file:{tmp_path}/blobs").get("a") == b"1"


def test_every_map_url_is_a_store_of_its_own() -> None:
    """``map:`` gives an empty store in memory each time."""
    store = open_store("map:")
    store.set("a", b"1")

    assert isinstance(store, MapStore)
    assert open_store("map:").get("a") is None


def test_the_scheme_may_be_in_capitals() -> None:
    """Schemes of URLs have no case."""
    assert isinstance(open_store("MAP:"), MapStore)


@pytest.mark.parametrize("url", ["map:a", "map:?size=3", "map://host"])
def test_a_map_has_no_place(url: str) -> None:
    """What can't be meant is refused, not passed over."""
    with pytest.raises(StoreUrlError, match="map"):
        open_store(url)


@pytest.mark.parametrize("url", ["floppy:a", "", "checkpoints", "/var/checkpoints", ":", "C:\\blobs"])
def test_an_unknown_scheme_names_the_known_ones(url: str) -> None:
    """A URL that no store takes is refused with the schemes that there are."""
    with pytest.raises(
        StoreUrlError, match=r"no store has the scheme of .*known are: file, map, postgres, postgresql, "
    ):
        open_store(url)


def test_every_store_is_found_by_an_entry_point() -> None:
    """Each scheme of the documentation leads to something that can be called with a URL."""
    found = {entry.name: entry.load() for entry in entry_points(group="blobcp.stores")}

    assert {"file", "map", "postgres", "postgresql", "redis", "rediss", "s3", "sqlite"} <= set(found)
    assert all(callable(opener) for opener in found.values())


def test_another_distribution_brings_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A third party's entry point is found, and is given the whole URL."""
    install(tmp_path, "elsewhere")
    monkeypatch.syspath_prepend(str(tmp_path))

    store = open_store("memory://somewhere?x=1")

    assert isinstance(store, MapStore)
    assert vars(store)["url"] == "memory://somewhere?x=1"


@pytest.mark.parametrize(
    ("code", "said"), [("import no_such_library", "no_such_library"), ("del open_memory", "open_memory")]
)
def test_a_broken_store_of_another_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, said: str
) -> None:
    """A third party's store that can't be loaded is named, with the reason."""
    install(tmp_path, "elsewhere", code=code)
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(StoreUrlError, match=f"'memory:x' can't be loaded from plugin:open_memory: .*{said}"):
        open_store("memory:x")


def test_two_distributions_with_one_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of two is meant can't be known, so neither is opened."""
    install(tmp_path, "elsewhere", more="map = plugin:open_memory")
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(StoreUrlError, match=r"several.*MapStore\.from_url, plugin:open_memory"):
        open_store("map:")


@pytest.mark.parametrize(
    ("url", "library", "extra"),
    [
        ("s3://bucket/prefix", "boto3", "s3"),
        ("postgresql://127.0.0.1/db", "psycopg", "postgres"),
        ("redis://127.0.0.1/0", "redis", "redis"),
    ],
)
def test_a_missing_library_says_what_to_install(url: str, library: str, extra: str) -> None:
    """Without its library a store tells which extra brings it, at the latest when it is first used."""
    code = (
        f"import sys; sys.modules[{library!r}] = None\n"
        "from blobcp import MissingExtraError\nfrom blobcp.stores import open_store\n"
        f"try:\n    open_store({url!r}).get('a')\nexcept MissingExtraError as error:\n    print(error)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert done.stderr == ""
    assert f"needs {library}, which is not installed; pip install 'blobcp[{extra}]'" in done.stdout


def test_a_broken_library_says_so_too() -> None:
    """A library that is there and can't be imported is reported with its own words."""
    with (
        pytest.raises(MissingExtraError, match=r"S3Store needs .* no half of it here; pip install 'blobcp\[s3\]'"),
        extra("s3", "S3Store"),
    ):
        raise ImportError("no half of it here")


def test_errors_of_urls_and_extras_are_what_python_calls_them() -> None:
    """They can be caught as StoreError, and as ValueError and ImportError."""
    assert issubclass(StoreUrlError, StoreError)
    assert issubclass(StoreUrlError, ValueError)
    assert issubclass(MissingExtraError, StoreError)
    assert issubclass(MissingExtraError, ImportError)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://me:pass%40word@db:5432/app", "postgresql://me:***@db:5432/app"),
        ("redis://:pass@cache/0", "redis://:***@cache/0"),
        ("redis://token@cache/0", "redis://token@cache/0"),
        ("postgresql://db/app?user=me&password=pass", "postgresql://db/app?user=me&password=***"),
        (
            "s3://b?aws_secret_access_key=abc&aws_session_token=d",
            "s3://b?aws_secret_access_key=***&aws_session_token=***",
        ),
        ("file:./dir?durable=false", "file:./dir?durable=false"),
        ("redis://:pa/ss@cache:6379/0", "redis://:***@cache:6379/0"),
        ("redis://me:se#cr@et?@cache/0", "redis://me:***@cache/0"),
        ("http://[::1", "http://[::1"),
        ("host=db password=secret port=1", "host=db password=*** port=1"),
        ("password = 'it\\'s secret' host=db", "password = *** host=db"),
        ("postgresql:?password=secret&sslmode=require", "postgresql:?password=***&sslmode=require"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, expected: str) -> None:
    """Passwords and secrets of a URL are not in messages."""
    assert shown(url) == expected


def test_no_message_holds_a_password() -> None:
    """An unknown scheme is reported without what stands before the host."""
    with pytest.raises(StoreUrlError) as caught:
        open_store("mongodb://me:hunter2@db/app?password=hunter2")

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("durble=true", r"unknown option 'durble'; known are: durable"),
        ("durable=perhaps", r"durable='perhaps' can't be taken: say true or false"),
        ("durable=", r"durable='' can't be taken"),
        ("durable=true&durable=false", r"'durable' twice"),
    ],
)
def test_options_are_strict(query: str, said: str) -> None:
    """An option that is misspelt, doubled or no value of its kind is refused: it would not do what was meant."""
    with pytest.raises(StoreUrlError, match=said):
        options_of(f"file:./dir?{query}", {"durable": boolean})


@pytest.mark.parametrize("url", ["redis://host:port/0", "redis://:pa/ss@host:6379/0", "redis://[::1/0"])
def test_a_url_that_can_not_be_taken_apart(url: str) -> None:
    """It is refused with what may be the reason, and no part of a password is in the error or behind it."""
    with pytest.raises(StoreUrlError, match="can't be read: its host or port is none") as caught:
        options_of(url, {})

    assert "ss@" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
