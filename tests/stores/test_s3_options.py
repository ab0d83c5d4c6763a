from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import repeat
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from s3_faults import FaultyProxy, Request, lose_reply, pass_on, refuse

from blobcp.errors import CheckpointConflictError, StoreError, StoreUrlError
from blobcp.store import CheckPointSwapper
from blobcp.stores.s3 import S3Store
from blobcp.stores.s3.client import ClientOptions
from blobcp.stores.s3.options import URL_OPTIONS

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

MIB = 1024 * 1024
BIG = b"\1" * 5 * MIB + b"\2"  # one byte more than one part


@pytest.fixture
def parting(s3_proxy: FaultyProxy, s3_bucket: str) -> Iterator[S3Store]:
    """A store that sends ``BIG`` in two parts."""
    with S3Store(
        s3_bucket, endpoint_url=s3_proxy.url, multipart_threshold=5 * MIB, part_size=5 * MIB, retry_wait=0.01
    ) as store:
        yield store


def steps(proxy: FaultyProxy) -> list[str]:
    """Return the methods of the requests so far, each with the names of what stands behind its ``?``."""
    return [
        " ".join([request.method, *sorted(parse_qs(urlsplit(request.path).query, keep_blank_values=True))])
        for request in proxy.seen
    ]


def sent(proxy: FaultyProxy, method: str = "PUT") -> Request:
    """Return the last request of a method."""
    return [request for request in proxy.seen if request.method == method][-1]


def uploads(client: S3Client, bucket: str) -> int:
    """Return how many uploads are begun and not finished."""
    return len(client.list_multipart_uploads(Bucket=bucket).get("Uploads", []))


WHOLE = ["POST uploads", "PUT partNumber uploadId", "PUT partNumber uploadId", "POST uploadId"]


def test_a_large_blob_goes_in_parts(parting: S3Store, s3_proxy: FaultyProxy) -> None:
    """Above the threshold a blob is sent in parts, up to it in one PUT; it comes back in one GET."""
    parting.set("a", BIG[:-1])
    assert steps(s3_proxy) == ["PUT"]
    s3_proxy.methods()
    parting.set("a", BIG)
    assert steps(s3_proxy) == WHOLE
    s3_proxy.methods()
    assert parting.get("a") == BIG
    assert s3_proxy.methods() == ["GET"]


def test_a_condition_holds_for_the_whole_of_the_parts(
    parting: S3Store, s3_proxy: FaultyProxy, s3_client: S3Client
) -> None:
    """The condition is sent with what puts the parts together; where it does not hold, no parts stay behind."""
    version = parting.set_if("a", BIG, None)
    assert sent(s3_proxy, "POST").headers["If-None-Match"] == "*"
    with pytest.raises(CheckpointConflictError):
        parting.set_if("a", BIG, None)
    assert steps(s3_proxy)[-2:] == ["DELETE uploadId", "GET"]
    parting.set_if("a", BIG + b"\3", version)
    assert sent(s3_proxy, "POST").headers["If-Match"] == version
    with pytest.raises(CheckpointConflictError):
        parting.set_if("a", BIG, version)
    assert uploads(s3_client, parting.bucket) == 0


def test_equal_parts_get_another_version(parting: S3Store) -> None:
    """F27: a large blob that is stored already is given another version as well."""
    first = parting.set_if("a", BIG, None)
    second = parting.set_if("a", BIG, first)

    assert (first[-3:], second[-3:]) == ('-2"', '-1"')
    assert parting.get_versioned("a") == (BIG, second)


def test_parts_of_a_failed_upload_are_removed(parting: S3Store, s3_proxy: FaultyProxy, s3_client: S3Client) -> None:
    """An upload that fails leaves nothing to pay for; where it has to, the error says so."""
    s3_proxy.spoil("PUT", [pass_on, refuse(403, "AccessDenied")])
    with pytest.raises(StoreError, match=r"can't save checkpoint 'a' \(5242881 bytes\) .*: AccessDenied"):
        parting.set("a", BIG)
    assert uploads(s3_client, parting.bucket) == 0
    assert parting.get("a") is None

    s3_proxy.spoil("PUT", [refuse(403, "AccessDenied")])
    s3_proxy.spoil("DELETE", [refuse(403, "AccessDenied")])
    with pytest.raises(StoreError) as caught:
        parting.set("a", BIG)
    assert caught.value.__cause__ is not None
    assert "could not be removed either" in caught.value.__cause__.__notes__[0]


def test_the_lost_end_of_an_upload(parting: S3Store, s3_proxy: FaultyProxy, s3_client: S3Client) -> None:
    """F27: an upload that the repeated end of it does not find any more was finished by the first one, or by nobody."""
    s3_proxy.spoil("POST", [pass_on, lose_reply(), refuse(404, "NoSuchUpload")])
    parting.set("a", BIG)
    assert steps(s3_proxy) == [*WHOLE, "POST uploadId", "DELETE uploadId", "GET"]
    s3_proxy.spoil("POST", [pass_on, lose_reply(), refuse(404, "NoSuchUpload")])
    version = parting.set_if("b", BIG, None)
    assert parting.get_versioned("b") == (BIG, version)

    s3_proxy.spoil("POST", [pass_on, refuse(404, "NoSuchUpload")])
    with pytest.raises(StoreError, match="NoSuchUpload"):
        parting.set("a", BIG)
    s3_proxy.spoil("POST", [pass_on, refuse(404, "NoSuchUpload")])
    with pytest.raises(StoreError, match="it may have been done all the same"):
        parting.set_if("c", BIG, None)


def test_options_of_objects_are_sent(s3_bucket: str, s3_proxy: FaultyProxy) -> None:
    """Encryption, key, storage class, checksum and the bucket's owner go with each save, in parts as well."""
    key = "arn:aws:kms:us-east-1:123456789012:key/1"
    with S3Store(
        s3_bucket,
        endpoint_url=s3_proxy.url,
        kms_key_id=key,
        storage_class="STANDARD_IA",
        expected_bucket_owner="123456789012",
        checksum="SHA256",
        multipart_threshold=5 * MIB,
        part_size=5 * MIB,
    ) as store:
        store.set("a", b"1")
        store.set("b", BIG)
        store.get("a")
        list(store.list())
        store.delete_many(["b"])
        store.delete("a")

    by_step = dict(zip(steps(s3_proxy), s3_proxy.seen, strict=True))
    for step in ("PUT", "POST uploads"):
        headers = by_step[step].headers
        assert headers["x-amz-server-side-encryption"] == "aws:kms"
        assert headers["x-amz-server-side-encryption-aws-kms-key-id"] == key
        assert headers["x-amz-storage-class"] == "STANDARD_IA"
        assert headers["x-amz-meta-blobcp-write"]
    assert by_step["PUT"].headers["x-amz-checksum-sha256"] == "a4ayc/80/OGda4BO/1o/V0etpOqiLx1JwB5S3beHW0s="
    assert by_step["PUT partNumber uploadId"].headers["x-amz-checksum-sha256"]
    assert {request.headers["x-amz-expected-bucket-owner"] for request in s3_proxy.seen} == {"123456789012"}


def test_checksums_can_be_left_out(s3_bucket: str, s3_proxy: FaultyProxy) -> None:
    """By default a checksum goes with a save and is asked for with a load; for old servers both can be left out."""
    for options, there in (("", True), ("&checksum=none", False)):
        with S3Store.from_url(f"s3://{s3_bucket}?endpoint_url={s3_proxy.url}{options}") as store:
            store.set("a", b"1")
            store.get("a")
        assert ("x-amz-checksum-crc32" in sent(s3_proxy).headers) is there
        assert ("x-amz-checksum-mode" in sent(s3_proxy, "GET").headers) is there


def test_a_url_says_all() -> None:
    """A URL names bucket, prefix and every option but the client."""
    plain = S3Store.from_url("s3://bucket")
    store = S3Store.from_url(
        f"s3://my-bucket/some%20dir/%23?endpoint_url={quote('http://h:1/?a&b', safe='')}&region=eu-west-1&profile=p"
        "&connect_timeout=1&read_timeout=2.5&pool_size=3&attempts=2&retry_wait=0.5&conditional_writes=false&checksum=sha256"
        "&server_side_encryption=aws:kms&kms_key_id=k&storage_class=STANDARD_IA&expected_bucket_owner=1"
        "&multipart_threshold=0&part_size=5242880"
    )

    assert (plain.bucket, plain.prefix, isinstance(plain, CheckPointSwapper)) == ("bucket", "", True)
    assert (store.bucket, store.prefix, isinstance(store, CheckPointSwapper)) == ("my-bucket", "some dir/#/", False)
    assert store._client._options == ClientOptions(
        endpoint_url="http://h:1/?a&b",
        region="eu-west-1",
        profile="p",
        checksum="SHA256",
        attempts=2,
        connect_timeout=1.0,
        read_timeout=2.5,
        pool_size=3,
    )
    assert set(URL_OPTIONS) == set(inspect.signature(S3Store).parameters) - {"bucket", "prefix", "client"}


def test_every_limit_is_set_on_purpose(s3_endpoint: str) -> None:
    """The client follows the options, and without any has limits that are blobcp's own and documented."""

    def limits(store: S3Store) -> tuple[object, ...]:
        with store:
            config = store._client.get().meta.config
        return (config.connect_timeout, config.read_timeout, config.max_pool_connections, config.retries)

    assert limits(S3Store("bucket")) == (5.0, 30.0, 32, {"mode": "standard", "total_max_attempts": 4})
    asked = S3Store("bucket", connect_timeout=1, read_timeout=2.5, pool_size=3, attempts=6)
    assert limits(asked) == (1, 2.5, 3, {"mode": "standard", "total_max_attempts": 6})


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3:", "names no bucket; say s3://bucket/prefix"),
        ("s3:///prefix", "names no bucket"),
        ("s3://key:secret@bucket", "holds credentials; give them to the process"),
        ("s3://localhost:9000/bucket", "has a port; say s3://bucket/prefix?endpoint_url=http://host:port"),
        ("s3://bucket/a#b", "has a '#'"),
        ("s3://bucket/%ff", "has a prefix that is not text"),
        ("s3://bucket?client=x", "unknown option 'client'"),
        ("s3://bucket?attempts=many", "attempts='many' can't be taken"),
        ("s3://bucket?region=", "say something, or leave the option out"),
    ],
)
def test_urls_that_are_refused(url: str, said: str) -> None:
    """A URL that says what the store can't take is refused, without showing a secret."""
    with pytest.raises(StoreUrlError) as caught:
        S3Store.from_url(url)

    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("checksum=md5", "checksum is None or one of CRC32, CRC32C, SHA256"),
        ("server_side_encryption=rot13", "server_side_encryption is None or one of AES256, aws:kms, aws:kms:dsse"),
        ("server_side_encryption=AES256&kms_key_id=k", "kms_key_id goes with a server_side_encryption by KMS"),
        ("part_size=5242879", "part_size is at least 5242880"),
        ("multipart_threshold=-1", "multipart_threshold is not below zero"),
        ("attempts=0", "attempts is at least 1"),
        ("pool_size=0", "pool_size is at least 1"),
        ("read_timeout=0", "connect_timeout and read_timeout are above zero and end"),
        ("read_timeout=nan", "connect_timeout and read_timeout are above zero and end"),
        ("connect_timeout=inf", "connect_timeout and read_timeout are above zero and end"),
        ("retry_wait=-1", "retry_wait is not below zero"),
    ],
)
def test_options_that_are_refused(options: str, said: str) -> None:
    """What S3 would refuse at the first save, or take and not do, is refused when the store is made."""
    with pytest.raises(StoreError, match=f"can't take its options: {said}"):
        S3Store.from_url(f"s3://bucket?{options}")


def test_a_client_and_options_for_one_are_refused(s3_client: S3Client) -> None:
    """Options that a given client would not follow are not passed over in silence."""
    with pytest.raises(StoreError, match="client is given, or the options endpoint_url, region and profile, not both"):
        S3Store("bucket", client=s3_client, region="eu-west-1")


@pytest.mark.parametrize("prefix", ["/a", "a//b", "../a", "a/.", "a\n", "\ud800", "/"])
def test_prefixes_that_are_refused(prefix: str) -> None:
    """A prefix that clients tidy up is refused."""
    with pytest.raises(StoreError, match="can't be part of S3 keys everywhere"):
        S3Store("bucket", prefix)


def test_a_long_prefix_is_refused() -> None:
    """Half a key is left to the ids."""
    assert S3Store("bucket", "p" * 511).prefix == "p" * 511 + "/"
    with pytest.raises(StoreError, match="takes 513 bytes; at most 512 leave room for ids"):
        S3Store("bucket", "p" * 512)


def test_a_server_without_etags(s3_bucket: str, s3_proxy: FaultyProxy) -> None:
    """Without an ETag nothing can be compared, and the error names the option for that."""
    s3_proxy.spoil("PUT", repeat(refuse(200, "")))
    s3_proxy.spoil("GET", repeat(refuse(200, "", body="1")))
    with S3Store(s3_bucket, endpoint_url=s3_proxy.url) as store:
        store.set("a", b"1")
        assert store.get("a") == b"1"
        with pytest.raises(StoreError, match=r"has no ETag to compare.* conditional_writes=False"):
            store.get_versioned("a")
        with pytest.raises(StoreError, match="gives no ETags to compare; open the store with conditional_writes=False"):
            store.set_if("a", b"1", None)


def test_the_environment_is_boto3s(s3_bucket: str, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the options leave open is found as boto3 finds it, the endpoint too."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3_endpoint)
    with S3Store(s3_bucket) as store:
        store.set("a", b"1")
        assert store.get("a") == b"1"
