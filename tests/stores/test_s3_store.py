from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from s3_faults import FaultyProxy
from s3_server import bare_client

from blobcp.errors import CheckpointConflictError, StoreError
from blobcp.store import CheckPointDeleter, CheckPointExpirer, CheckPointLister, CheckPointSwapper
from blobcp.stores.s3 import S3Store

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

POWERS = (CheckPointDeleter, CheckPointLister, CheckPointSwapper, CheckPointExpirer)

MIB = 1024 * 1024

FORKED = """
import os, sys
from blobcp.errors import StoreError
from blobcp.stores.s3 import S3Store
bucket, endpoint = sys.argv[1:]
store = S3Store(bucket, endpoint_url=endpoint)
store.set("parent", b"1")
given = S3Store(bucket, client=store._client.get())
child = os.fork()
if child == 0:
    store.set("child", store.get("parent") + b"2")
    try:
        given.get("parent")
    except StoreError as error:
        store.set("said", str(error).encode())
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(store.get("child"), store.get("said")[:64], given.get("parent"))
"""


def test_makes_one_call_for_each_of_its_own(s3_store: S3Store, s3_proxy: FaultyProxy) -> None:
    """A save is one PUT and a load one GET, the first ones too; nothing is asked for but what was wanted."""
    assert s3_proxy.methods() == []
    s3_store.set("a", b"1")
    assert s3_proxy.methods() == ["PUT"]
    assert s3_store.get("a") == b"1"
    assert s3_proxy.methods() == ["GET"]
    assert s3_store.get("b") is None
    assert s3_proxy.methods() == ["GET"]
    seen = s3_store.get_versioned("a")
    assert s3_proxy.methods() == ["GET"]
    assert seen is not None
    s3_store.set_if("a", b"2", seen[1])
    s3_store.set_if("b", b"3", None)
    assert s3_proxy.methods() == ["PUT", "PUT"]
    assert list(s3_store.list()) == ["a", "b"]
    assert s3_proxy.methods() == ["GET"]
    s3_store.delete("a")
    assert s3_proxy.methods() == ["DELETE"]
    s3_store.delete_many(["a", "b"])
    assert s3_proxy.methods() == ["POST"]


def test_an_object_is_the_blob(s3_store: S3Store, s3_bucket: str, s3_client: S3Client) -> None:
    """Others find a blob under prefix and id, as it was saved, and the store reads what others put there."""
    s3_store.set("order/17", bytearray(b"blob"))
    s3_client.put_object(Bucket=s3_bucket, Key="runs/theirs", Body=b"foreign")

    assert s3_client.get_object(Bucket=s3_bucket, Key="runs/order/17")["Body"].read() == b"blob"
    assert s3_store.get_versioned("theirs") == (b"foreign", '"684a72e08f24f55b1138edd5a7c2b53e"')


def test_offers_what_the_server_can() -> None:
    """Powers are found by looking: all but expiry, and no compare-and-set where the server has no conditional writes."""
    full, poor = S3Store("bucket"), S3Store("bucket", conditional_writes=False)

    assert [isinstance(full, power) for power in POWERS] == [True, True, True, False]
    assert [isinstance(poor, power) for power in POWERS] == [True, True, False, False]
    assert not hasattr(poor, "set_if")


def test_conditional_writes(s3_store: S3Store) -> None:
    """A conditional write replaces only what the caller has seen, and otherwise changes nothing."""
    first = s3_store.set_if("a", b"1", None)
    second = s3_store.set_if("a", b"2", first)

    for version in (None, first, "", "*", 'W/"x"', '"x", ' + second, "\r\n"):
        with pytest.raises(CheckpointConflictError, match=r"conflict.*'a'"):
            s3_store.set_if("a", b"3", version)
    assert s3_store.get_versioned("a") == (b"2", second)
    s3_store.delete("a")
    assert s3_store.get_versioned("a") is None
    with pytest.raises(CheckpointConflictError):
        s3_store.set_if("a", b"3", second)
    assert s3_store.get("a") is None


def test_equal_bytes_get_another_version(s3_store: S3Store, s3_proxy: FaultyProxy) -> None:
    """F27: a conditional write of what is stored already moves the version, so of two who do that only one wins."""
    versions = [s3_store.set_if("a", b"same", None)]
    s3_proxy.methods()
    versions.append(s3_store.set_if("a", b"same", versions[-1]))

    assert s3_proxy.methods() == ["PUT", "POST", "PUT", "POST"]
    assert versions[1] != versions[0]
    assert s3_store.get_versioned("a") == (b"same", versions[1])
    with pytest.raises(CheckpointConflictError):
        s3_store.set_if("a", b"same", versions[0])
    assert s3_store.set_if("a", b"same", versions[1]) != versions[1]


def test_lists_and_deletes_more_than_a_page(s3_bucket: str, s3_proxy: FaultyProxy) -> None:
    """A listing asks for a page when it is needed, in order; a thousand ids are deleted in one call; others' keys stay."""
    ids = sorted([f"{number}/é" for number in range(1000)] + ["a b", "../x", "\x01", "\uffff", "😀", "a/"])
    with S3Store(s3_bucket, "runs", endpoint_url=s3_proxy.server) as direct, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda checkpoint_id: direct.set(checkpoint_id, b""), ids))
    client = bare_client(s3_proxy.server)
    for foreign in ("runs/", "runs/folder/", "running/x"):
        client.put_object(Bucket=s3_bucket, Key=foreign, Body=b"")

    with S3Store(s3_bucket, "runs", endpoint_url=s3_proxy.url) as store:
        listing = store.list()
        assert s3_proxy.methods() == []
        assert [next(listing) for _ in range(900)] == ids[:900]
        assert s3_proxy.methods() == ["GET"]
        assert list(listing) == ids[900:]
        assert s3_proxy.methods() == ["GET"]
        assert list(store.list("99")) == [found for found in ids if found.startswith("99")]
        assert list(store.list("../")) == ["../x"]
        assert list(store.list("9%")) == list(store.list("\0")) == list(store.list("\ud800")) == []
        s3_proxy.methods()
        store.delete_many(iter(ids))
        assert s3_proxy.methods() == ["POST", "POST"]
        assert list(store.list()) == []
    left = client.list_objects_v2(Bucket=s3_bucket)["Contents"]
    assert [entry["Key"] for entry in left] == ["running/x", "runs/", "runs/folder/"]
    client.close()


def test_one_id_is_not_many(s3_store: S3Store) -> None:
    """A single id in the place of many is refused, and nothing is deleted that its characters name."""
    s3_store.set("a", b"1")

    with pytest.raises(
        StoreError, match="delete_many takes many ids, not 'ab' alone; give a list of ids, or use delete"
    ):
        s3_store.delete_many("ab")

    assert s3_store.get("a") == b"1"


def test_stores_of_one_bucket_are_apart(s3_bucket: str, s3_endpoint: str) -> None:
    """A prefix ends where the id begins, so stores whose prefixes begin alike don't see each other's blobs."""
    with (
        S3Store(s3_bucket, "a", endpoint_url=s3_endpoint) as one,
        S3Store(s3_bucket, "ab", endpoint_url=s3_endpoint) as two,
    ):
        two.set("x", b"1")

        assert list(one.list()) == []
        assert one.get("b/x") is None


def test_keeps_ids_that_clients_tidy_up(s3_store: S3Store) -> None:
    """No client, proxy or server makes another key of an id on the way, and a listing gives it back."""
    ids = sorted(["../x", "/abs", "a//b", "a/./b", "a/", ".", "a b", "a+b", "%2e", "a?b#c", "\x01\r\n", "\uffff"])
    for number, checkpoint_id in enumerate(ids):
        s3_store.set_if(checkpoint_id, b"%d" % number, None)

    assert list(s3_store.list()) == ids
    assert [s3_store.get(checkpoint_id) for checkpoint_id in ids] == [b"%d" % number for number in range(len(ids))]
    s3_store.delete_many(ids)
    assert list(s3_store.list()) == []


def test_a_copy_works_elsewhere(s3_store: S3Store) -> None:
    """A pickled store opens its own connections with the same options; one with a client of the user's can't be pickled."""
    s3_store.set("a", b"1")

    with pickle.loads(pickle.dumps(s3_store)) as copy:
        assert copy.get("a") == b"1"
        assert [isinstance(copy, power) for power in POWERS] == [True, True, True, False]
        version = copy.get_versioned("a")[1]
        assert copy.set_if("a", b"2", version) != version
    with pytest.raises(StoreError, match=r"can't be copied or sent to another process: .* give the store options"):
        pickle.dumps(S3Store("bucket", client=s3_store._client.get()))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_works(s3_bucket: str, s3_endpoint: str) -> None:
    """After a fork both sides go on with connections of their own; a client that was given is refused to the child."""
    command = [sys.executable, "-c", FORKED, s3_bucket, s3_endpoint]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.stderr == ""
    assert done.stdout == "b'12' b'the client of this S3 store was made before the process forked, ' b'1'\n"


def test_a_given_client_is_used_and_left_open(s3_bucket: str, s3_endpoint: str) -> None:
    """A client of the user's takes the place of the store's own and outlives the store."""
    client = bare_client(s3_endpoint)
    asked: list[str] = []
    client.meta.events.register("before-call.s3", lambda model, **_: asked.append(model.name))

    with S3Store(s3_bucket, client=client) as store:
        store.set("a", b"1")
    assert client.get_object(Bucket=s3_bucket, Key="a")["Body"].read() == b"1"
    assert asked == ["PutObject", "GetObject"]
    client.close()


def test_a_closed_store_opens_again(s3_store: S3Store) -> None:
    """Closing gives the connections back; a later call opens new ones."""
    s3_store.set("a", b"1")
    s3_store.close()
    s3_store.close()

    assert s3_store.get("a") == b"1"


def test_many_threads_share_one_client(s3_store: S3Store) -> None:
    """Threads that come at once wait for one client, and all their saves arrive."""
    start = threading.Barrier(8)

    def save(number: int) -> int:
        start.wait(30)
        s3_store.set(str(number), b"%d" % number)
        return id(s3_store._client.get())

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(save, range(8)))) == 1
    assert [s3_store.get(found) for found in s3_store.list()] == [b"%d" % number for number in range(8)]


def test_making_a_store_imports_no_boto3() -> None:
    """The library is imported when the store is first used."""
    code = (
        "import sys; from blobcp.stores.s3 import S3Store; S3Store('b'); print({'boto3', 'botocore'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout == "set()\n"


@pytest.mark.parametrize(
    "call",
    ["get('a')", "set('a', b'')", "delete('a')", "delete_many(['a'])", "get_versioned('a')", "set_if('a', b'', None)"],
)
def test_without_boto3(call: str) -> None:
    """Where the extra is not installed, every call says what to install."""
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('boto3', 'boto3.session', 'botocore', 'botocore.exceptions')))\n"
        "from blobcp.errors import MissingExtraError; from blobcp.stores.s3 import S3Store\n"
        f"try: S3Store('b').{call}\n"
        "except MissingExtraError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.startswith("S3Store needs boto")
    assert done.stdout.endswith("pip install 'blobcp[s3]'\n")
