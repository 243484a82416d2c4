"""Object storage with the S3 protocol: location of a lake's files, access keys, and translation of its errors."""

import math
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import duckdb

from gradebook.rubrics.model.errors import GradebookError, LakeError, StorageUnavailable
from gradebook.tasks.lake.sql import quoted

if TYPE_CHECKING:
    from pyarrow.fs import S3FileSystem

BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
PREFIX_PART = re.compile(r"(?!\.+$)[A-Za-z0-9._-]+")  # DuckDB would read *, ? and [ as patterns, NAME=VALUE as a column
DEFAULT_REGION = "us-east-1"
PROBE = "probe"  # beside the tables' folder: no table ever references it
PROBED_FOR_S = 60.0  # from a command's start to the run that it starts
# Settings that httpfs takes from the environment: a user's SQL could read them with `current_setting`.
_HTTPFS_SETTINGS = ("s3_access_key_id", "s3_secret_access_key", "s3_session_token")

_REFUSED = re.compile(
    r"HTTP (?:status )?40[013]\b|ACCESS_DENIED|ACCESS DENIED|Forbidden|INVALID_ACCESS_KEY|SIGNATURE|TOKEN|CREDENTIALS",
    re.IGNORECASE,
)
_MISSING = re.compile(r"HTTP (?:status )?404\b|NO_SUCH_BUCKET|NO_SUCH_KEY|not found|does not exist", re.IGNORECASE)
_MOVED = re.compile(r"HTTP (?:status )?30[127]\b|PermanentRedirect", re.IGNORECASE)
_OF_STORE = re.compile(r"\bHTTP\b|\bs3://|AWS Error|curl", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class BucketLocation:
    """Bucket and prefix of a lake's files."""

    bucket: str
    prefix: str  # without slashes at its ends; empty: the whole bucket

    @property
    def path(self) -> str:
        """Bucket and prefix, as pyarrow writes them."""
        return f"{self.bucket}/{self.prefix}" if self.prefix else self.bucket

    @property
    def uri(self) -> str:
        """Address as `--data` takes it, without a trailing slash."""
        return f"s3://{self.path}"


def read_location(data: str) -> BucketLocation:
    """Parse `s3://BUCKET/PREFIX`. Raises `LakeError` with a message that repeats nothing that could be a key."""
    expected = "expected a local folder or s3://BUCKET/PREFIX, of letters, digits, '.', '-' and '_'"
    scheme, _, location = data.partition("://")
    if "@" in data or "?" in data:
        raise LakeError(
            f"--data: found {scheme}://... with a key or settings in it, {expected}; keys: AWS_ACCESS_KEY_ID"
        )
    bucket, _, prefix = location.partition("/")
    prefix = prefix.strip("/")
    if scheme != "s3" or not BUCKET.fullmatch(bucket):
        raise LakeError(f"--data: found {data!r}, {expected}")
    if prefix and not all(PREFIX_PART.fullmatch(part) for part in prefix.split("/")):
        raise LakeError(f"--data: found {data!r}, {expected}")
    return BucketLocation(bucket, prefix)


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """Key and address of the object storage; never shown."""

    key_id: str
    secret: str = field(repr=False)
    token: str | None = field(repr=False)
    region: str
    endpoint: str | None  # HOST:PORT; None: AWS
    is_encrypted: bool


def read_access(environment: Mapping[str, str]) -> StoreAccess:
    """Read AWS's environment variables. Raises `LakeError` for a missing key or an invalid address."""
    missing = [name for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY") if not environment.get(name)]
    if missing:
        raise LakeError(
            "--data s3://",
            f"no {' and no '.join(missing)} in the environment",
            "both",
            'profiles and instance roles are not read: eval "$(aws configure export-credentials '
            '--format env)" sets them',
        )
    address = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or ""
    endpoint, is_encrypted = _endpoint(address) if address else (None, True)
    return StoreAccess(
        key_id=environment["AWS_ACCESS_KEY_ID"],
        secret=environment["AWS_SECRET_ACCESS_KEY"],
        token=environment.get("AWS_SESSION_TOKEN") or None,
        region=environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or DEFAULT_REGION,
        endpoint=endpoint,
        is_encrypted=is_encrypted,
    )


def _endpoint(address: str) -> tuple[str, bool]:
    url = urlsplit(address)
    if url.scheme not in {"http", "https"} or not url.hostname or "@" in url.netloc or url.path.strip("/"):
        raise LakeError("AWS_ENDPOINT_URL", "no address of a server", "http(s)://HOST or http(s)://HOST:PORT")
    return url.netloc, url.scheme == "https"


def open_store() -> "S3FileSystem":
    """Open the storage through pyarrow with the environment's key. Raises `LakeError` if there is no key."""
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    access = read_access(os.environ)
    return S3FileSystem(
        access_key=access.key_id,
        secret_key=access.secret,
        session_token=access.token,
        region=access.region,
        endpoint_override=access.endpoint,
        scheme="https" if access.is_encrypted else "http",
        connect_timeout=10,
        request_timeout=60,
        allow_delayed_open=True,  # one request for a small file instead of three
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=4),
    )


def allow_reading(connection: duckdb.DuckDBPyConnection, location: BucketLocation) -> None:
    """Give a connection the environment's key, for this bucket only and until the connection closes."""
    access = read_access(os.environ)
    options = {"key_id": access.key_id, "secret": access.secret, "region": access.region, "session_token": access.token}
    options |= {"endpoint": access.endpoint, "url_style": "path" if access.endpoint else "vhost"}
    options_text = ", ".join(f"{name} '{quoted(text)}'" for name, text in options.items() if text)
    scope = f"scope '{location.uri}/', use_ssl {str(access.is_encrypted).lower()}"
    for setting in _HTTPFS_SETTINGS:
        connection.execute(f"set {setting} = ''")
    connection.execute("set enable_http_metadata_cache = true")  # a lake's files never change
    try:
        connection.execute(f"create temporary secret gradebook_lake_files (type s3, {options_text}, {scope})")
    except duckdb.Error:
        raise LakeError(
            "--data s3://: DuckDB can't read the key in AWS_ACCESS_KEY_ID and the related variables"
        ) from None


_probed: dict[tuple[BucketLocation, StoreAccess], float] = {}  # times of probes that passed


def probe_store(location: BucketLocation) -> None:
    """Write a few bytes, so that a wrong key or bucket is reported before any paid request.

    One probe is enough for the next `PROBED_FOR_S` in this process.
    """
    probed = location, read_access(os.environ)
    if time.monotonic() - _probed.get(probed, -math.inf) < PROBED_FOR_S:
        return
    with translate_storage_errors(location), open_store().open_output_stream(f"{location.path}/{PROBE}") as stream:
        stream.write(b"gradebook writes here\n")
    _probed[probed] = time.monotonic()


def check_store(location: BucketLocation) -> None:
    """Check that the bucket exists, without writing. Raises `LakeError`, or as `translate_storage_errors` does."""
    with translate_storage_errors(location):
        _refuse_missing_bucket(location)


@contextmanager
def translate_storage_errors(location: BucketLocation | None) -> Iterator[None]:
    """Raise the storage's refusals as errors of gradebook with one sentence; other errors pass unchanged."""
    try:
        yield
    except (duckdb.Error, OSError) as error:
        fault = store_fault(location, error)
        if fault is None:
            raise
        raise fault from None  # the libraries' messages may contain the key's id


def store_fault(location: BucketLocation | None, error: Exception) -> GradebookError | None:
    """Translate an error of DuckDB or pyarrow about the storage; None for other errors.

    `LakeError` if the user has to fix something, `StorageUnavailable` if a retry of the command may succeed.
    """
    text = str(error)
    if location is None or not _OF_STORE.search(text):
        return None
    if _MOVED.search(text):
        return LakeError(location.uri, "the bucket in another region", "it in AWS_REGION", "set that one")
    if _REFUSED.search(text):
        return LakeError(
            f"{location.uri}: the storage refused the key in AWS_ACCESS_KEY_ID, expected one that is valid and may "
            "read, write and list there; a temporary one may have run out"
        )
    if _MISSING.search(text):
        return _missing_fault(location, text)
    return StorageUnavailable(location.uri)


def _missing_fault(location: BucketLocation, text: str) -> GradebookError:
    """Error for a missing bucket or file; asks the storage whether the bucket exists."""
    try:
        _refuse_missing_bucket(location)
    except OSError:
        return StorageUnavailable(location.uri)
    except LakeError as error:
        return error
    file_uri = re.search(rf"{re.escape(location.uri)}/[\w./=-]+", text)
    return LakeError(
        f"{(file_uri[0] if file_uri else location.uri)}",
        "no such file",
        "one of the lake's",
        "bring it back from a backup, or name the place of the lake's files with --data",
    )


def _refuse_missing_bucket(location: BucketLocation) -> None:
    from pyarrow.fs import FileType

    if open_store().get_file_info(location.bucket).type == FileType.NotFound:
        raise LakeError(location.uri, f"no bucket {location.bucket}", "one", "make it, or correct --data")
