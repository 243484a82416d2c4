"""The machine: package versions, the catalog's format, disk space, and Prefect's server."""

import os
import platform
import shutil
import stat
import urllib.request
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import duckdb
from packaging.requirements import Requirement

from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.attaching import folders_of
from gradebook.tasks.lake.schema import CATALOG
from gradebook.tasks.operations.doctor.findings import NOTE, OK, PROBLEM, DoctorFinding, or_fine
from gradebook.tasks.system.folder_settings import prefect_home
from gradebook.tasks.system.secret_values import without_password

SERVER_TIMEOUT_S = 5.0
LEAST_FREE_BYTES = 2**30
OTHERS = stat.S_IRWXG | stat.S_IRWXO
NO_ROOM_BYTES = 64 * 2**20
SHOWN_PACKAGES = ("gradebook", "duckdb", "duckdb-extension-ducklake", "prefect", "pyarrow")
_EXTENSIONS = """
select extension_name, extension_version from duckdb_extensions()
where loaded and extension_name in ('ducklake', 'sqlite_scanner', 'postgres_scanner', 'httpfs') order by extension_name
"""
_FORMAT = f"select value from {CATALOG}.ducklake_metadata where key = 'version' and scope is null"


def examine_versions() -> Iterator[DoctorFinding]:
    """Check that each required package is installed in a supported version."""
    requirements = [Requirement(text) for text in metadata.requires("gradebook") or ()]
    wanted = [each for each in requirements if each.marker is None or each.marker.evaluate({"extra": ""})]
    faults = (fault for requirement in wanted if (fault := _fault(requirement)))
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in SHOWN_PACKAGES)
    mend = "pip install --force-reinstall gradebook"
    findings = (DoctorFinding("versions", PROBLEM, fault, mend) for fault in faults)
    yield from or_fine(findings, "versions", f"python {platform.python_version()}, {versions}")


def _fault(requirement: Requirement) -> str | None:
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return f"found no {requirement.name}, expected {requirement}"
    if requirement.specifier.contains(version, prereleases=True):
        return None
    return f"found {requirement.name} {version}, expected {requirement}"


def examine_catalog(connection: duckdb.DuckDBPyConnection, lake: Lake) -> DoctorFinding:
    """Format of the catalog, and versions of the extensions that read it."""
    extensions = ", ".join(f"{name} {version}" for name, version in connection.execute(_EXTENSIONS).fetchall())
    formats = connection.execute(_FORMAT).fetchall()
    written = f", format {formats[0][0]}" if formats else ""
    return DoctorFinding("catalog", OK, f"{lake.name} opens{written}; {extensions}")


def examine_disk(lake: Lake) -> Iterator[DoctorFinding]:
    """Check that the lake's folder exists, can be written and has free space."""
    if not lake.root.is_dir():
        found = f"{lake.root}: found no such folder, expected the lake's folder with its journals and working folders"
        yield DoctorFinding("disk", PROBLEM, found, "mount it, or name the right one with --data or GRADEBOOK_WORK")
        return
    if not os.access(lake.root, os.W_OK):
        mend = f"`chmod u+w {lake.root}`, or run as its owner; reading works as it is"
        yield DoctorFinding(
            "disk", NOTE, f"{lake.root} can't be written, so no run can be evaluated into this lake", mend
        )
    free_bytes = shutil.disk_usage(lake.root).free
    found = f"{free_bytes / 2**30:,.1f} GiB free at {lake.root}"
    if free_bytes >= LEAST_FREE_BYTES:
        yield DoctorFinding("disk", OK, found)
        return
    severity = PROBLEM if free_bytes < NO_ROOM_BYTES else NOTE
    yield DoctorFinding(
        "disk", severity, f"{found}, expected at least 1 GiB", "free some space; a run that stopped can be resumed"
    )


def examine_access(lake: Lake) -> Iterator[DoctorFinding]:
    """Check that the lake's folders and Prefect's database are closed to other users of the machine."""
    private = lake.root if lake.root.is_dir() and not _mode(lake.root) & OTHERS else None
    folders = [folder for folder in dict.fromkeys(folders_of(lake)) if folder.is_dir() and _mode(folder) & OTHERS]
    opened = [folder for folder in folders if private is None or not folder.is_relative_to(private)]
    home = prefect_home()
    database = home / "prefect.db"
    is_there = os.path.isfile(database)  # noqa: PTH113 - Path raises where the folder may not be read
    if is_there and _mode(home) & OTHERS and _mode(database) & OTHERS:
        opened.append(database)
    findings = (
        DoctorFinding(
            "access",
            PROBLEM if _mode(path) & stat.S_IWOTH else NOTE,
            f"{path}: found mode {_mode(path):03o}, which other users of this machine may read, expected 700 or 600",
            f"`chmod go-rwx {path}`, unless it is shared on purpose",
        )
        for path in opened
    )
    yield from or_fine(findings, "access", f"{lake.root} is closed to other users")


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def examine_server() -> DoctorFinding:
    """Check that Prefect's server answers, if PREFECT_API_URL names one."""
    address = os.environ.get("PREFECT_API_URL")
    if not address:
        return DoctorFinding("prefect server", OK, "PREFECT_API_URL is not set: commands run here, without Prefect")
    shown = without_password(address)
    try:
        # Any scheme is allowed: the address is the user's own.
        with urllib.request.urlopen(f"{address.rstrip('/')}/health", timeout=SERVER_TIMEOUT_S) as answer:
            if answer.status == 200:
                return DoctorFinding("prefect server", OK, f"{shown} answers")
            reason = f"HTTP {answer.status}"
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "reason", error))
    mend = "prefect server start, or unset PREFECT_API_URL"
    return DoctorFinding("prefect server", PROBLEM, f"PREFECT_API_URL: {shown} does not answer: {reason}", mend)
