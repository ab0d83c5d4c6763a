"""What S3 and botocore say when something fails, and what a user can do about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from blobcp.errors import BlobcpError, StoreError, text_of

if TYPE_CHECKING:
    from botocore.exceptions import _ClientErrorResponseTypeDef

__all__ = ["code_of", "explain", "is_unsettled", "status_of"]

_CREDENTIALS = (
    "give the process credentials: environment variables, a profile, or a role (AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY, AWS_PROFILE, an instance or container role)"
)
_EXPIRED = (
    "the credentials have expired; renew them (aws sso login, a new session token) or use a role that renews itself"
)
_WRONG_KEY = "the server does not know the access key or its secret; check which credentials the process finds"
_RIGHTS = (
    "allow s3:GetObject, s3:PutObject and s3:DeleteObject on the objects and s3:ListBucket on the bucket (without the "
    "last, S3 answers so for objects that are not there), and the KMS key if there is one; check expected_bucket_owner"
)
_REGION = "the bucket is in another region; say region=, or endpoint_url= for a server that is not AWS"
_THROTTLED = "the server asks for less; try again later, spread the load over more prefixes, or raise attempts="
_SERVER = "the server is in trouble and stayed so; try again later"
_UNREACHABLE = "check endpoint_url, region, the network, proxies and certificates, and try again"
_SLOW = "the network or the server is slow; try again, or raise read_timeout="
_LOST = "the connection was lost, at the last of several attempts too; try again, and check the network and proxies"
_DAMAGED = "bytes were changed on the way or where they are kept; try again, and check the network and what is stored"
_CONTENDED = "others write the same checkpoint at the same time; read it again"
_NOT_OFFERED = "the server does not offer this; open the store with conditional_writes=False, or checksum=None"
_CONFIGURED = "check the options of the store and the AWS configuration of the process"

_ADVICE = {
    "NoSuchBucket": "create the bucket, or check its name, the region and endpoint_url",
    "InvalidBucketName": "check the name of the bucket",
    "ParamValidationError": "check the name of the bucket and the options of the store",
    "AccessDenied": _RIGHTS,
    "AllAccessDisabled": _RIGHTS,
    "403": _RIGHTS,
    "ExpiredToken": _EXPIRED,
    "ExpiredTokenException": _EXPIRED,
    "TokenRefreshRequired": _EXPIRED,
    "UnauthorizedSSOTokenError": _EXPIRED,
    "SSOTokenLoadError": _EXPIRED,
    "TokenRetrievalError": _EXPIRED,
    "LoginRefreshRequired": _EXPIRED,
    "InvalidToken": _WRONG_KEY,
    "InvalidAccessKeyId": _WRONG_KEY,
    "SignatureDoesNotMatch": _WRONG_KEY,
    "RequestTimeTooSkewed": "set the clock of this machine",
    "RequestExpired": "set the clock of this machine",
    "NoCredentialsError": _CREDENTIALS,
    "PartialCredentialsError": _CREDENTIALS,
    "CredentialRetrievalError": _CREDENTIALS,
    "ProfileNotFound": "check profile= and the AWS configuration files",
    "PermanentRedirect": _REGION,
    "AuthorizationHeaderMalformed": _REGION,
    "IllegalLocationConstraintException": _REGION,
    "301": _REGION,
    "SlowDown": _THROTTLED,
    "Throttling": _THROTTLED,
    "ThrottlingException": _THROTTLED,
    "RequestLimitExceeded": _THROTTLED,
    "TooManyRequests": _THROTTLED,
    "429": _THROTTLED,
    "503": _THROTTLED,
    "RequestTimeout": _SLOW,
    "ReadTimeoutError": _SLOW,
    "ConnectTimeoutError": _UNREACHABLE,
    "EndpointConnectionError": _UNREACHABLE,
    "ProxyConnectionError": _UNREACHABLE,
    "SSLError": _UNREACHABLE,
    "HTTPClientError": _LOST,
    "IncompleteReadError": _LOST,
    "HTTPError": _LOST,
    "OSError": _LOST,
    "FlexibleChecksumError": _DAMAGED,
    "BadDigest": _DAMAGED,
    "InvalidDigest": _DAMAGED,
    "XAmzContentSHA256Mismatch": _DAMAGED,
    "XAmzContentChecksumMismatch": _DAMAGED,
    "MissingDependencyException": "use checksum='CRC32', or install botocore[crt]",
    "EntityTooLarge": "lower multipart_threshold, so that large blobs are sent in parts",
    "InvalidObjectState": "the object is in an archive; restore it, or use a storage class that can be read at once",
    "InvalidStorageClass": "check storage_class",
    "XMinioParentIsObject": "this server can't keep an id and others that go on after it with a slash; use another sign",
    "ConditionalRequestConflict": _CONTENDED,
    "OperationAborted": _CONTENDED,
    "PreconditionFailed": _CONTENDED,
    "NoSuchUpload": _CONTENDED,
    "NotImplemented": _NOT_OFFERED,
    "501": _NOT_OFFERED,
    "404": "the server answers 404 without saying what is missing; check endpoint_url and the bucket",
}
"""By error code of S3, class of botocore's exception, or HTTP status."""

# A ConnectionError as well: it is the last of several attempts that found nobody, the first one may have got through.
_UNSETTLED = frozenset({"HTTPClientError", "ConnectionError", "NoSuchUpload", "RequestTimeout"})


@contextmanager
def explain(doing: str, *, writes: bool = False) -> Iterator[None]:
    """Turn an error of botocore, or of what is below it, into a StoreError that says what was done and what helps.

    Args:
        doing: what is done to what and where, for instance ``read checkpoint 'a' from s3://bucket/a``.
        writes: whether a failure can leave it unknown if something was stored.
    """
    try:
        yield
    except BlobcpError:
        raise
    # Below botocore lie urllib3, ssl, sockets and XML, each with a tree of its own, and any of them comes through at times.
    except Exception as error:
        unsettled = (
            "; it may have been done all the same, so read it again first" if writes and is_unsettled(error) else ""
        )
        raise StoreError(f"can't {doing}: {_reason(error)}; {_advice(error)}{unsettled}") from error


def code_of(error: Exception) -> str:
    """Return the code that S3 gave, or the class of an error that did not come from S3."""
    reply = _reply_of(error)
    return type(error).__name__ if reply is None else reply.get("Error", {}).get("Code", "")


def status_of(error: Exception) -> int:
    """Return the HTTP status that S3 gave, or 0."""
    return (_reply_of(error) or {}).get("ResponseMetadata", {}).get("HTTPStatusCode", 0)


def is_unsettled(error: Exception) -> bool:
    """Return whether a request that failed so, or an attempt before it, may have been carried out all the same."""
    retries = (_reply_of(error) or {}).get("ResponseMetadata", {}).get("RetryAttempts", 0)
    return retries > 0 or status_of(error) >= 500 or not _UNSETTLED.isdisjoint(_names(error))


def _names(error: Exception) -> list[str]:
    return [code_of(error), *(kind.__name__ for kind in type(error).__mro__), str(status_of(error))]


def _reason(error: Exception) -> str:
    reply = _reply_of(error)
    if reply is None:
        return text_of(error)
    said = reply.get("Error", {})
    return f"{said.get('Code', 'an error without a code')}: {said.get('Message', 'no more is said')}"


def _reply_of(error: Exception) -> _ClientErrorResponseTypeDef | None:
    try:
        from botocore.exceptions import ClientError
    except ImportError:  # then it is not botocore's, but about botocore
        return None
    return error.response if isinstance(error, ClientError) else None


def _advice(error: Exception) -> str:
    code = code_of(error)
    found = next((_ADVICE[name] for name in _names(error) if name in _ADVICE), None)
    if found is None and code.startswith("KMS."):
        found = "check kms_key_id, that the key is enabled, and the rights to use it (kms:GenerateDataKey, kms:Decrypt)"
    if found is None and status_of(error) >= 500:
        found = _SERVER
    return found or (_CONFIGURED if status_of(error) == 0 else "see the cause")
