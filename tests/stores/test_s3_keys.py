from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from blobcp.errors import InvalidCheckpointIdError, StoreError
from blobcp.stores.s3.keys import MAX_KEY_BYTES, id_of, key_of, keys_start_of

# Mostly what has to be quoted and its neighbours, so that quoted and plain text meet in all ways.
ids = st.text(
    st.sampled_from('\x01\x1f !"-./0aA`_~\x7f123\ufffc\ufffd\ufffe\uffff\U00010000')
    | st.characters(exclude_categories=["Cs"]),
    min_size=1,
    max_size=12,
).filter(lambda text: "\0" not in text)
prefixes = st.sampled_from(["", "runs/", "a/b/"])


@pytest.mark.parametrize("checkpoint_id", ["order-17", "tenant/order.v1_2", "a%2fb", "é😀", "a\\b", "*?&=+~:'\"<>"])
def test_a_plain_id_is_in_its_key_as_it_is(checkpoint_id: str) -> None:
    """What every S3 server takes as it is can be read in the bucket and named in policies."""
    assert key_of("runs/", checkpoint_id) == f"runs/{checkpoint_id}"


@given(prefixes, ids)
@example("", "/")
@example("", "..")
@example("runs/", "..1/.2")
@example("runs/", "a//.//../")
@example("", "!")
def test_an_id_comes_back_from_its_key(prefix: str, checkpoint_id: str) -> None:
    """Quoting loses nothing."""
    assert id_of(prefix, key_of(prefix, checkpoint_id)) == checkpoint_id


@given(prefixes, ids, ids)
@example("", "a/", "a/\x01")
@example("", "a//b", "a/.b")
@example("", "a//b", "a/0")
@example("", "\ufffd", "\uffff")
@example("", "\uffff", "\U00010000")
@example("", "a b", "a!b")
def test_keys_sort_as_their_ids(prefix: str, one: str, other: str) -> None:
    """The order of the keys' bytes, which S3 lists by, is the code-point order of the ids."""
    keys = [key_of(prefix, one).encode(), key_of(prefix, other).encode()]

    assert (keys[0] < keys[1], keys[0] == keys[1]) == (one < other, one == other)


@given(prefixes, ids, ids)
@example("", "a/", ".")
@example("", "a", "/")
def test_a_prefix_of_ids_is_a_prefix_of_keys(prefix: str, start: str, rest: str) -> None:
    """A listing can ask the server for the ids that start in some way."""
    found = keys_start_of(prefix, start)

    assert found is not None
    assert key_of(prefix, start + rest).startswith(found)
    assert key_of(prefix, start).startswith(found)


@given(prefixes, ids)
def test_no_client_or_server_can_tidy_a_key_up(prefix: str, checkpoint_id: str) -> None:
    """A key has no empty segment, none of dots alone, nothing that XML can't carry, and no spaces."""
    key = key_of(prefix, checkpoint_id)

    assert not {"", ".", ".."} & {*key.split("/")}
    assert all(character > " " and character not in "\ufffe\uffff" for character in key)


@pytest.mark.parametrize(
    "key", ["runs/", "runs/a b", "runs/a/", "runs/a//b", "runs/.x", "runs/!!", "runs/a\ufffd9", "runs/!"]
)
def test_somebody_elses_key_is_no_ids(key: str) -> None:
    """Keys that the store would not write, such as the folders of a console, stand for no id."""
    assert id_of("runs/", key) is None


def test_a_key_fits() -> None:
    """Any id of letters fits below a prefix of half a key; one that has to be quoted too much is refused with what to do."""
    assert len(key_of("p" * 511 + "/", "é" * 256).encode()) == MAX_KEY_BYTES
    with pytest.raises(StoreError, match=r"makes a key of 1029 bytes, .* S3 takes 1024, shorten the prefix or the id"):
        key_of("runs/", " " * 512)


@pytest.mark.parametrize("bad", ["", "a\0", "\ud800", "x" * 513])
def test_what_is_no_id_has_no_key(bad: str) -> None:
    """The rule for ids is that of all stores, and nothing starts with what no id can hold."""
    with pytest.raises(InvalidCheckpointIdError):
        key_of("", bad)
    assert keys_start_of("runs/", bad) == ("runs/" if bad == "" else None)
