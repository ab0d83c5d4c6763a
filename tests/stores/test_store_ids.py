from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from blobcp.errors import BlobcpError, InvalidCheckpointIdError
from blobcp.stores import FileStore, MapStore
from blobcp.stores.file.names import id_of, parts_of

Store = MapStore | FileStore
MakeStore = Callable[[Path], Store]

STORES = {
    "map": lambda folder: MapStore(),
    "file": lambda folder: FileStore(folder / "inside", durable=False),
}
stores = pytest.mark.parametrize("make_store", STORES.values(), ids=STORES.keys())

ACCEPTED = [
    "../evil",
    "/abs",
    "a/b",
    "a:b",
    "a\\b",
    "a b",
    ".",
    "..",
    "*",
    "a%2fb",
    "A",
    "a",
    "\u00e9",  # é in one code point
    "e\u0301",  # é in two
    "CON",
    "'; drop table x;--",
    "con",
    "con.txt",
    "lpt1",
    ".hidden",
    "trailing.",
    "trailing ",
    " ",
    "\n",
    "-rf",
    "~",
    "%",
    "%61",
    "a.blob",
    "n" * 80,
    "n" * 81,
    "n" * 512,
    "N" * 512,
    "n" * 80 + ".blob",
    "n" * 80 + ".more",
    "n" * 75 + ".blob" + "n",
    "n" * 75 + ".blob",
    "n" * 75,
    "☕" * 170,
    "😀" * 128,
    "../" * 170,
    "ß",
    "ss",
    "İ",
    "ı",
    "K",  # the Kelvin sign
    "k",
]
REFUSED = ["", "x\x00y", "n" * 5000, "n" * 513, "😀" * 129, "\ud800"]

ids = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=128),
    st.text(st.sampled_from("aA.%/\\ 25fé"), min_size=1, max_size=170),
)


@stores
def test_every_id_keeps_its_own_value(make_store: MakeStore, tmp_path: Path) -> None:
    """F20: ids that look like paths, patterns, names of devices or each other are kept apart, inside the folder."""
    store = make_store(tmp_path)
    beside = sorted(tmp_path.iterdir())

    for checkpoint_id in ACCEPTED:
        store.set(checkpoint_id, checkpoint_id.encode())

    assert {checkpoint_id: store.get(checkpoint_id) for checkpoint_id in ACCEPTED} == {
        checkpoint_id: checkpoint_id.encode() for checkpoint_id in ACCEPTED
    }
    assert [*store.list()] == sorted(ACCEPTED)
    assert sorted(tmp_path.iterdir()) == beside


@stores
def test_a_deleted_id_takes_no_other_with_it(make_store: MakeStore, tmp_path: Path) -> None:
    """F20: deleting ids one by one removes exactly those."""
    store = make_store(tmp_path)
    for checkpoint_id in ACCEPTED:
        store.set(checkpoint_id, b"")

    for gone in range(1, len(ACCEPTED) + 1):
        store.delete(ACCEPTED[gone - 1])

        assert [*store.list()] == sorted(ACCEPTED[gone:])


@stores
@pytest.mark.parametrize("checkpoint_id", REFUSED, ids=lambda value: ascii(value)[:12])
def test_what_is_no_id_is_refused_by_every_call(make_store: MakeStore, tmp_path: Path, checkpoint_id: str) -> None:
    """F20: what one store refuses all refuse, in every call, with a ValueError of the tree."""
    store = make_store(tmp_path)

    for call in (lambda: store.set(checkpoint_id, b"x"), lambda: store.get(checkpoint_id)):
        with pytest.raises(InvalidCheckpointIdError) as caught:
            call()
        assert isinstance(caught.value, ValueError)
        assert isinstance(caught.value, BlobcpError)
    with pytest.raises(InvalidCheckpointIdError):
        store.delete(checkpoint_id)
    assert [*store.list()] == []


@stores
@pytest.mark.parametrize("checkpoint_id", [None, 7, b"a", Path("a")], ids=repr)
def test_an_id_is_text(make_store: MakeStore, tmp_path: Path, checkpoint_id: object) -> None:
    """An id of another type is refused, not turned into text."""
    with pytest.raises(InvalidCheckpointIdError, match="give a str"):
        make_store(tmp_path).get(checkpoint_id)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("checkpoint_id", "parts"),
    [
        ("order-17", ["order-17.blob"]),
        ("v1.2_final@eu+x=1", ["v1.2_final@eu+x=1.blob"]),
        ("018f5c3e-7d2b-7c4a-9f00-5b1d2e3f4a5b", ["018f5c3e-7d2b-7c4a-9f00-5b1d2e3f4a5b.blob"]),
        ("tenant/Run", ["tenant%2f%52un.blob"]),
        ("..", ["%2e..blob"]),
        ("con.txt", ["%63on.txt.blob"]),
        ("n" * 81, ["n" * 80 + ".more", "n.blob"]),
        ("é", ["%c3%a9.blob"]),
    ],
)
def test_names_are_as_documented(checkpoint_id: str, parts: list[str]) -> None:
    """Names on disk do not change from one release to the next, and plain ids can be read in them."""
    assert parts_of(checkpoint_id) == parts
    assert id_of(parts) == checkpoint_id


@given(ids)
def test_a_name_leads_back_to_its_id(checkpoint_id: str) -> None:
    """Quoting loses nothing."""
    assert id_of(parts_of(checkpoint_id)) == checkpoint_id


@given(ids)
@example("😀" * 128)
@example("A" * 512)
def test_names_fit_every_file_system(checkpoint_id: str) -> None:
    """Names are short, plain, visible, of one case, and no device's."""
    devices = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))}

    for part in parts_of(checkpoint_id):
        assert len(part) <= 255
        assert part.isascii()
        assert part == part.casefold()
        assert not set(part) & set('/\\:*?"<>| \0')
        assert not part.startswith(".")
        assert not part.endswith(".")
        assert part.partition(".")[0] not in devices


@given(ids, ids)
@example("A", "a")
@example("\u00e9", "e\u0301")
@example("a/b", "a%2fb")
def test_no_two_ids_share_a_path(one: str, other: str) -> None:
    """Ids stay apart even where case and accents do not count, and none's file is another's folder."""
    assume(one != other)

    paths = [[unicodedata.normalize("NFKC", part).casefold() for part in parts_of(each)] for each in (one, other)]

    assert paths[0] != paths[1]
    assert paths[0] != paths[1][: len(paths[0])]
    assert paths[1] != paths[0][: len(paths[1])]


@pytest.mark.parametrize(
    "parts",
    [
        ["notes.txt"],
        ["a"],
        [".blob"],
        ["A.blob"],
        ["%61.blob"],
        ["%2F.blob"],
        ["%zz.blob"],
        ["%ff.blob"],
        ["%00.blob"],
        ["a.more", "b.blob"],
        ["backup", "a.blob"],
        ["n" * 80 + ".more", ".blob"],
        [".blobcp-00ff.tmp"],
    ],
)
def test_a_strange_name_is_no_id(parts: list[str]) -> None:
    """A name that quoting would not have made is left alone."""
    assert id_of(parts) is None
