"""Address of a lake."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from gradebook.rubrics.model.errors import LakeError
from gradebook.tasks.lake.object_store import BucketLocation, read_location
from gradebook.tasks.workspace.folder import usual_lake

CATALOGS = ("sqlite", "postgres")
# libpq's keywords, as KEY=VALUE or in a URL's query, and the user part of a URL; a `dbname` may be a URL too.
_SETTING = re.compile(r"(?:^|[\s?&'])(?:ssl)?password\s*=", re.IGNORECASE)
_USER_PART = re.compile(r"//[^@?]*?:[^@?]+@")


def connection_string(address: str) -> str:
    """Connection string for libpq, of the form postgresql://USER@HOST/DATABASE or dbname=... host=...

    Raises `LakeError` if it contains a password: Prefect stores the parameters of a flow run, the shell its history,
    and the system shows the arguments of a process to all users.
    """
    if _SETTING.search(unquote(address)) or _USER_PART.search(address):
        raise LakeError(
            "--lake",
            "a password in the connection string",
            "none, for Prefect keeps it with the flow run",
            "PostgreSQL takes it from PGPASSWORD or ~/.pgpass",
        )
    return f"postgresql:{address}" if address.startswith("//") else address


PARTITION = re.compile(r"[^=]+=[^=]*")  # folder names of a partitioned table


@dataclass(frozen=True, slots=True)
class Lake:
    """Location of a lake. root: local folder of journals, of working folders and, without a bucket, of data files.

    bucket: object storage of the data files. has_data: whether the user named their location.
    at: version to read, which forbids writing; None: the latest.
    """

    catalog: str  # sqlite | postgres
    address: str  # the SQLite file, or PostgreSQL's connection string
    root: Path
    at: int | None = None
    bucket: BucketLocation | None = None
    has_data: bool = False

    @property
    def data_path(self) -> str:
        """Folder or object-storage address of the tables' Parquet files, without a trailing slash."""
        return str(self.root / "data") if self.bucket is None else f"{self.bucket.uri}/data"

    @property
    def journal_folder(self) -> Path:
        """Folder of replies that are not in the ledger yet."""
        return self.root / "journal"

    @property
    def name(self) -> str:
        """Name in messages, without the connection string: it may contain a password."""
        name = self.address if self.catalog == "sqlite" else "the PostgreSQL catalog"
        return name if self.at is None else f"{name} at version {self.at}"

    def words(self, *, is_absolute: bool = False, is_passed_on: bool = False) -> tuple[str, ...]:
        """Options that name the lake in a command to paste in this folder; empty for the default lake.

        is_absolute: options for any folder, also for the default lake. is_passed_on: options for a page that others
        read, without the connection string of a PostgreSQL catalog: readers set GRADEBOOK_LAKE themselves.
        """
        options: tuple[str, ...] = ()
        if self.catalog == "sqlite":
            if is_absolute or not self._is_default:
                options = ("--lake", f"sqlite:{self.address if is_absolute else _from_here(self.address)}")
        elif not is_passed_on and (is_absolute or not self._is_default):
            options = ("--lake", f"postgres:{self.address}")
        if not self.has_data:
            return options
        folder = str(self.root) if is_absolute else _from_here(str(self.root))
        return (*options, "--data", self.bucket.uri if self.bucket else folder)

    @property
    def _is_default(self) -> bool:
        """Whether the lake is the default one, which commands take without `--lake`."""
        catalog, _, address = usual_lake().partition(":")
        same = (str(Path(address).absolute()),) if catalog == "sqlite" else (address, f"postgresql:{address}")
        return catalog == self.catalog and self.address in same

    @property
    def is_there(self) -> bool:
        """Whether the catalog's file exists; always true for a server, which is not contacted."""
        return self.catalog != "sqlite" or os.path.exists(self.address)  # noqa: PTH110 - Path raises on too long a name


def _from_here(path: str) -> str:
    """Path relative to the working folder, if it is below it."""
    folder = Path.cwd()
    return str(Path(path).relative_to(folder)) if Path(path).is_relative_to(folder) else path


def find_lake(uri: str, data: str | None = None) -> Lake:
    """Parse a lake's URI, `sqlite:FILE` or `postgres:CONNECTION`. Raises `LakeError` for any other, or a password.

    data: folder of its files, or s3://BUCKET/PREFIX. With s3://, journals and working folders go to GRADEBOOK_WORK or
    beside the SQLite file: they need locks and appends, which object storage does not have.
    """
    catalog, _, address = uri.partition(":")
    if catalog not in CATALOGS or not address:
        uri_text = uri if "@" not in uri and "password" not in uri else f"{catalog}:..."
        expected = "sqlite:FILE or postgres:CONNECTION"
        file = uri if uri.endswith((".sqlite", ".db")) else f"{uri.rstrip('/')}/catalog.sqlite"
        example = "" if ":" in uri else f", such as sqlite:{file}"
        raise LakeError("--lake", f"{uri_text!r}", expected + example)
    bucket = read_location(data) if data is not None and "://" in data else None
    if catalog == "sqlite":
        path = Path(address).absolute()
        work = (os.environ.get("GRADEBOOK_WORK") if bucket else data) or path.parent
        return Lake(catalog, str(path), _root(Path(work)), bucket=bucket, has_data=bool(data))
    if data is None:
        raise LakeError("--data", "none", "the folder of the Parquet files of a PostgreSQL lake")
    work = os.environ.get("GRADEBOOK_WORK", "") if bucket else data
    if not work:
        raise LakeError(
            "GRADEBOOK_WORK",
            "none",
            "the local folder of journals and working files: a lake with its catalog in PostgreSQL "
            "and its files in object storage has no other",
        )
    return Lake(catalog, connection_string(address), _root(Path(work)), bucket=bucket, has_data=True)


def _root(folder: Path) -> Path:
    """Absolute folder of the lake. Raises `LakeError` if DuckDB would read a part of its name as something else."""
    if partition := next((part for part in folder.absolute().parts if PARTITION.fullmatch(part)), None):
        raise LakeError(
            f"{folder}",
            f"a folder named {partition!r} on the way",
            "none of the form NAME=VALUE: files below it would be read as if their column NAME held that value",
        )
    if letter := next((character for character in "?\\" if character in str(folder.absolute())), None):
        raise LakeError(f"{folder.absolute()}", f"a {letter} on the way", "none: DuckDB reads it as more than a letter")
    return folder.absolute()
