from __future__ import annotations

from collections.abc import Callable
from itertools import chain, repeat
from typing import TYPE_CHECKING

import pytest
from s3_faults import Fault, FaultyProxy, cut_off, faulty, lose_reply, pass_on, refuse, stay_silent, tamper, wait_for

from blobcp.errors import CheckpointConflictError, StoreError
from blobcp.stores.s3 import S3Store

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

TEN = b"0123456789"

NO_ABSENCE = [
    (404, "NoSuchBucket", "NoSuchBucket: said by the proxy; create the bucket, or check its name"),
    (404, "", "404: Not Found; the server answers 404 without saying what is missing"),
    (403, "AccessDenied", "AccessDenied: said by the proxy; allow s3:GetObject"),
    (403, "", "403: Forbidden; allow s3:GetObject"),
    (400, "ExpiredToken", "ExpiredToken: said by the proxy; the credentials have expired; renew them"),
    (403, "InvalidAccessKeyId", "; the server does not know the access key or its secret"),
    (403, "RequestTimeTooSkewed", "; set the clock"),
    (400, "AuthorizationHeaderMalformed", "; the bucket is in another region; say region="),
    (403, "InvalidObjectState", "; the object is in an archive; restore it"),
    (400, "KMS.DisabledException", "; check kms_key_id, that the key is enabled"),
    (418, "Teapot", "Teapot: said by the proxy; see the cause"),
    (500, "InternalError", "; the server is in trouble and stayed so; try again later"),
    (503, "SlowDown", "; the server asks for less; try again later"),
]
"""Statuses and codes of errors, and what is said of each."""


def failing(work: Callable[[], object]) -> str:
    """Return what the StoreError says that this raises; its cause has to be kept."""
    with pytest.raises(StoreError) as caught:
        work()
    assert caught.value.__cause__ is not None
    return str(caught.value)


def test_only_no_such_key_is_absence(s3_store: S3Store, s3_proxy: FaultyProxy) -> None:
    """F25: what S3 says is not there is absent; one GET."""
    s3_proxy.spoil("GET", [refuse(404, "NoSuchKey")])

    assert s3_store.get("a") is None
    assert s3_proxy.methods() == ["GET"]


def test_what_can_not_be_read_is_no_absence(s3_bucket: str, s3_proxy: FaultyProxy) -> None:
    """F25: every other answer is an error that names the id and the place, keeps the cause and says what to do."""
    with S3Store(s3_bucket, "runs", endpoint_url=s3_proxy.url, attempts=1) as store:
        for status, code, said in NO_ABSENCE:
            s3_proxy.spoil("GET", repeat(refuse(status, code)))
            message = failing(lambda: store.get("a"))
            assert message.startswith(f"can't read checkpoint 'a' from s3://{s3_bucket}/runs/a: "), code
            assert said in message
            assert said in failing(lambda: store.get_versioned("a"))
            assert failing(lambda: list(store.list("b"))).startswith(f"can't list s3://{s3_bucket}/runs/b: ")


@pytest.mark.parametrize("code", ["InternalError", ""])
def test_a_server_that_recovers_is_waited_for(s3_store: S3Store, s3_proxy: FaultyProxy, code: str) -> None:
    """F25: after two answers of 500 the third one counts, for loads and for saves."""
    s3_proxy.spoil("PUT", repeat(refuse(500, code), 2))
    s3_proxy.spoil("GET", repeat(refuse(500, code), 2))

    s3_store.set("a", TEN)

    assert s3_store.get("a") == TEN
    assert s3_proxy.methods() == ["PUT"] * 3 + ["GET"] * 3


@pytest.mark.parametrize("fault", [cut_off(5), cut_off(0), tamper], ids=["cut off", "empty", "changed"])
def test_a_broken_reply_is_asked_for_again(s3_store: S3Store, s3_proxy: FaultyProxy, fault: Fault) -> None:
    """F25: half a body, or one whose checksum is wrong, is never a blob; the next whole one is."""
    s3_store.set("a", TEN)
    s3_proxy.spoil("GET", [fault, fault])
    s3_proxy.methods()

    assert s3_store.get("a") == TEN
    assert s3_proxy.methods() == ["GET"] * 3


@pytest.mark.parametrize(
    ("fault", "said"),
    [(cut_off(5), "the connection was lost"), (tamper, "bytes were changed on the way or where they are kept")],
    ids=["cut off", "changed"],
)
def test_a_reply_that_stays_broken_is_an_error(
    s3_store: S3Store, s3_proxy: FaultyProxy, fault: Fault, said: str
) -> None:
    """F25: the store asks as often as it was told to, and then says what is wrong."""
    s3_store.set("a", TEN)
    s3_proxy.spoil("GET", repeat(fault))
    s3_proxy.methods()

    assert said in failing(lambda: s3_store.get("a"))
    assert s3_proxy.methods() == ["GET"] * 4


def test_a_silent_server_is_not_waited_for_for_ever(s3_bucket: str, s3_proxy: FaultyProxy) -> None:
    """Every wait has a limit; after the last one the error says which."""
    s3_proxy.spoil("GET", repeat(stay_silent))
    s3_proxy.spoil("PUT", repeat(stay_silent))
    with S3Store(s3_bucket, endpoint_url=s3_proxy.url, attempts=2, read_timeout=0.2, retry_wait=0) as store:
        assert "; the network or the server is slow; try again, or raise read_timeout=" in failing(
            lambda: store.get("a")
        )
        message = failing(lambda: store.set("a", TEN))
        assert message.endswith("; it may have been done all the same, so read it again first")
        assert s3_proxy.methods() == ["GET", "GET", "PUT", "PUT"]


def test_nobody_listens() -> None:
    """An endpoint that can't be reached is named, and nothing is taken for absent."""
    with S3Store("bucket", endpoint_url="http://127.0.0.1:9", retry_wait=0) as store:
        message = failing(lambda: store.get("a"))
        assert 'Could not connect to the endpoint URL: "http://127.0.0.1:9/bucket/a"; check endpoint_url' in message
        assert "check endpoint_url" in failing(lambda: store.set_if("a", b"", None))


def test_no_credentials(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where boto3 finds no credentials, the error says where it looks."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with S3Store("bucket", endpoint_url=s3_endpoint) as store:
        message = failing(lambda: store.get("a"))
        assert "NoCredentialsError: Unable to locate credentials; give the process credentials: " in message
    with S3Store("bucket", profile="nobody", endpoint_url=s3_endpoint) as store:
        assert "check profile= and the AWS configuration files" in failing(lambda: store.get("a"))


def test_a_bucket_that_no_server_can_have(s3_endpoint: str) -> None:
    """What botocore refuses before it calls is an error of the store, too."""
    with S3Store("no bucket", endpoint_url=s3_endpoint) as store:
        assert "check the name of the bucket" in failing(lambda: store.get("a"))


@pytest.mark.parametrize("code", ["BadDigest", "XAmzContentSHA256Mismatch"])
def test_bytes_that_arrive_changed(s3_store: S3Store, s3_proxy: FaultyProxy, code: str) -> None:
    """A save whose checksum the server finds wrong is refused."""
    s3_proxy.spoil("PUT", repeat(refuse(400, code)))

    assert "bytes were changed on the way" in failing(lambda: s3_store.set("a", TEN))


def test_the_lost_reply_of_a_create(s3_store: S3Store, s3_proxy: FaultyProxy) -> None:
    """F27: the repeat of a write that was stored is refused, and the store sees that it was its own."""
    s3_proxy.spoil("PUT", [lose_reply()])

    version = s3_store.set_if("a", TEN, None)

    assert s3_proxy.methods() == ["PUT", "PUT", "GET"]
    assert s3_store.get_versioned("a") == (TEN, version)
    assert list(s3_store.list()) == ["a"]


def test_the_lost_reply_of_a_swap(s3_store: S3Store, s3_proxy: FaultyProxy) -> None:
    """F27: the same where the write replaces something."""
    first = s3_store.set_if("a", b"1", None)
    s3_proxy.spoil("PUT", [lose_reply()])

    second = s3_store.set_if("a", b"2", first)

    assert s3_store.get_versioned("a") == (b"2", second)


@pytest.mark.parametrize("theirs", [b"other", TEN], ids=["unequal", "equal"])
@pytest.mark.parametrize("version", [None, "seen"], ids=["create", "swap"])
def test_a_rival_between_the_lost_reply_and_the_repeat(
    s3_store: S3Store, s3_proxy: FaultyProxy, s3_client: S3Client, s3_bucket: str, theirs: bytes, version: str | None
) -> None:
    """F27: another client's bytes in between are a conflict and are kept, be they equal to one's own."""
    if version:
        version = s3_store.set_if("a", b"before", None)
    s3_proxy.spoil("PUT", [lose_reply(lambda: s3_client.put_object(Bucket=s3_bucket, Key="runs/a", Body=theirs))])

    with pytest.raises(CheckpointConflictError, match="conflict"):
        s3_store.set_if("a", TEN, version)

    assert s3_store.get("a") == theirs
    assert "Metadata" in s3_client.get_object(Bucket=s3_bucket, Key="runs/a")
    assert s3_client.get_object(Bucket=s3_bucket, Key="runs/a")["Metadata"] == {}


def test_a_rival_of_a_write_of_equal_bytes(
    s3_store: S3Store, s3_proxy: FaultyProxy, s3_client: S3Client, s3_bucket: str
) -> None:
    """F27: a write of what is stored already wins only once it has moved the version; somebody else may be first."""
    version = s3_store.set_if("a", TEN, None)
    s3_proxy.spoil("POST", [wait_for(lambda: s3_client.put_object(Bucket=s3_bucket, Key="runs/a", Body=b"other"))])
    with pytest.raises(CheckpointConflictError):
        s3_store.set_if("a", TEN, version)
    assert s3_store.get("a") == b"other"

    version = s3_store.set_if("b", TEN, None)
    s3_proxy.spoil("POST", chain([pass_on], repeat(refuse(500, ""))))
    assert "it may have been done all the same" in failing(lambda: s3_store.set_if("b", TEN, version))


def test_a_server_that_is_busy_with_another_write(s3_store: S3Store, s3_proxy: FaultyProxy) -> None:
    """F27: 409 ConditionalRequestConflict is no verdict; the write is tried again."""
    s3_proxy.spoil("PUT", [refuse(409, "ConditionalRequestConflict")])

    version = s3_store.set_if("a", TEN, None)

    assert s3_proxy.methods() == ["PUT", "PUT"]
    assert s3_store.get_versioned("a") == (TEN, version)


def test_a_server_that_stays_busy(
    s3_store: S3Store, s3_proxy: FaultyProxy, s3_client: S3Client, s3_bucket: str
) -> None:
    """F27: after the last attempt what is stored decides: a rival's write is a conflict, otherwise nobody knows."""
    s3_proxy.spoil("PUT", repeat(refuse(409, "ConditionalRequestConflict")))

    message = failing(lambda: s3_store.set_if("a", TEN, None))
    assert "others write the same checkpoint at the same time; read it again" in message
    assert s3_proxy.methods() == ["PUT"] * 4 + ["GET"]
    s3_client.put_object(Bucket=s3_bucket, Key="runs/a", Body=b"other")
    with pytest.raises(CheckpointConflictError):
        s3_store.set_if("a", TEN, None)


def test_replies_that_are_lost_each_time(s3_store: S3Store, s3_proxy: FaultyProxy) -> None:
    """F27: where no reply ever came, the store looks: what it stored is success."""
    s3_proxy.spoil("PUT", chain([lose_reply()], repeat(refuse(500, ""))))

    version = s3_store.set_if("a", TEN, None)

    assert s3_proxy.methods() == ["PUT"] * 4 + ["GET"]
    assert s3_store.get_versioned("a") == (TEN, version)


def test_a_write_whose_outcome_stays_unknown(s3_store: S3Store, s3_proxy: FaultyProxy) -> None:
    """F25: where neither the write nor the look gets through, the error says both, and that it may have been done."""
    s3_proxy.spoil("PUT", repeat(refuse(500, "")))

    message = failing(lambda: s3_store.set_if("a", TEN, None))
    assert message.endswith("; it may have been done all the same, so read it again first")
    s3_proxy.spoil("PUT", chain([lose_reply()], repeat(pass_on)))
    s3_proxy.spoil("GET", repeat(refuse(403, "AccessDenied")))
    with pytest.raises(StoreError) as caught:
        s3_store.set_if("a", TEN, None)
    assert caught.value.__cause__ is not None
    assert "what is stored could not be looked at either" in caught.value.__cause__.__notes__[0]


def test_a_lost_reply_before_a_refusal(s3_store: S3Store, s3_proxy: FaultyProxy) -> None:
    """F27: where the repeat of a write fails for another reason, the first one is looked for, or said to be possible."""
    s3_proxy.spoil("PUT", [lose_reply(), refuse(403, "AccessDenied")])

    version = s3_store.set_if("a", TEN, None)

    assert s3_store.get_versioned("a") == (TEN, version)
    s3_proxy.spoil("PUT", [lose_reply(), refuse(403, "AccessDenied")])
    assert failing(lambda: s3_store.set("b", TEN)).endswith(
        "; it may have been done all the same, so read it again first"
    )
    assert s3_store.get("b") == TEN
    s3_proxy.spoil("PUT", [refuse(403, "AccessDenied")])
    assert "may have been done" not in failing(lambda: s3_store.set("c", TEN))


def test_a_server_that_goes_after_a_lost_reply(s3_bucket: str, s3_endpoint: str) -> None:
    """F27: where a server stores a write, dies, and is not back for the repeats, the error says that it may be done."""
    with faulty(s3_endpoint) as proxy, S3Store(s3_bucket, endpoint_url=proxy.url, attempts=2) as store:
        proxy.spoil("PUT", [lose_reply(proxy.stop)])
        message = failing(lambda: store.set("a", TEN))
    assert "EndpointConnectionError" in message
    assert message.endswith("; it may have been done all the same, so read it again first")
    with S3Store(s3_bucket, endpoint_url=s3_endpoint) as store:
        assert store.get("a") == TEN


def test_a_server_without_conditional_writes(s3_store: S3Store, s3_proxy: FaultyProxy) -> None:
    """Where the server says that it can't, the error names the option for that."""
    s3_proxy.spoil("PUT", repeat(refuse(501, "NotImplemented")))

    assert "open the store with conditional_writes=False" in failing(lambda: s3_store.set_if("a", TEN, None))


def test_a_batch_that_is_not_deleted_whole(s3_store: S3Store, s3_proxy: FaultyProxy) -> None:
    """What can't be deleted now is tried again, and what can't be deleted at all is an error that names it."""

    def say(code: str, key: str) -> Fault:
        entry = f"<Error><Key>{key}</Key><Code>{code}</Code><Message>no</Message></Error>"
        return refuse(200, "", body=f"<DeleteResult>{entry}</DeleteResult>")

    s3_store.set("a", b"1")
    s3_proxy.methods()
    s3_proxy.spoil("POST", [say("InternalError", "runs/a"), pass_on])
    s3_store.delete_many(["a"])
    assert s3_proxy.methods() == ["POST", "POST"]
    assert s3_store.get("a") is None

    s3_proxy.spoil("POST", [say("NoSuchKey", "runs/a"), say("AccessDenied", "runs/.1./b")])
    s3_store.delete_many(["a"])
    with pytest.raises(
        StoreError, match=r"1 of 2 checkpoints in s3://.*/runs/ were not deleted; the first is '\.\./b': AccessDenied"
    ):
        s3_store.delete_many(["a", "../b"])
