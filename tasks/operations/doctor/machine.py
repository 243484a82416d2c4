"""The machine that a lake is used on: versions of what reads it, room on the disk, Prefect's server."""

import os
import platform
import shutil
import urllib.request
from collections.abc import Iterator
from importlib import metadata
from urllib.parse import urlsplit

import duckdb
from packaging.requirements import Requirement

from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.schema import CATALOG
from gradebook.tasks.operations.doctor.findings import NOTE, OK, PROBLEM, Finding, or_fine

SERVER_TIMEOUT_S = 5.0
LEAST_FREE_BYTES = 2**30
NO_ROOM_BYTES = 64 * 2**20
TOLD = ("gradebook", "duckdb", "duckdb-extension-ducklake", "prefect", "pyarrow")
_EXTENSIONS = """
select extension_name, extension_version from duckdb_extensions()
where loaded and extension_name in ('ducklake', 'sqlite_scanner', 'postgres_scanner', 'httpfs') order by extension_name
"""
_FORMAT = f"select value from {CATALOG}.ducklake_metadata where key = 'version' and scope is null"


def examine_versions() -> Iterator[Finding]:
    """Whether each package is there in a version that this gradebook is made for."""
    requirements = [Requirement(text) for text in metadata.requires("gradebook") or ()]
    wanted = [each for each in requirements if each.marker is None or each.marker.evaluate({"extra": ""})]
    faults = (fault for requirement in wanted if (fault := _fault(requirement)))
    told = ", ".join(f"{name} {metadata.version(name)}" for name in TOLD)
    mend = "pip install --force-reinstall gradebook"
    findings = (Finding("versions", PROBLEM, fault, mend) for fault in faults)
    yield from or_fine(findings, "versions", f"python {platform.python_version()}, {told}")


def _fault(requirement: Requirement) -> str | None:
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return f"found no {requirement.name}, expected {requirement}"
    if requirement.specifier.contains(version, prereleases=True):
        return None
    return f"found {requirement.name} {version}, expected {requirement}"


def examine_catalog(connection: duckdb.DuckDBPyConnection, lake: Lake) -> Finding:
    """What reads the catalog, and of which format that is."""
    extensions = ", ".join(f"{name} {version}" for name, version in connection.execute(_EXTENSIONS).fetchall())
    formats = connection.execute(_FORMAT).fetchall()
    written = f", format {formats[0][0]}" if formats else ""
    return Finding("catalog", OK, f"{lake.name} opens{written}; {extensions}")


def examine_disk(lake: Lake) -> Iterator[Finding]:
    """Whether the lake's folder is there, can be written and has room."""
    if not lake.root.is_dir():
        found = f"{lake.root}: found no such folder, expected the lake's, with its journals and working folders"
        yield Finding("disk", PROBLEM, found, "mount it, or name the right one with --data or GRADEBOOK_WORK")
        return
    if not os.access(lake.root, os.W_OK):
        mend = f"chmod u+w {lake.root}, or run as its owner; to read it nothing is needed"
        yield Finding("disk", NOTE, f"{lake.root} can't be written: nothing can be evaluated into this lake", mend)
    free_bytes = shutil.disk_usage(lake.root).free
    found = f"{free_bytes / 2**30:,.1f} GiB free at {lake.root}"
    if free_bytes >= LEAST_FREE_BYTES:
        yield Finding("disk", OK, found)
        return
    severity = PROBLEM if free_bytes < NO_ROOM_BYTES else NOTE
    yield Finding("disk", severity, f"{found}, expected 1 GiB and more", "make room; a run that stops goes on after")


def examine_server() -> Finding:
    """Whether Prefect's server answers, where one is named."""
    address = os.environ.get("PREFECT_API_URL")
    if not address:
        return Finding("prefect server", OK, "PREFECT_API_URL names none: each command starts its own")
    shown = without_secrets(address)
    try:
        # The scheme is the user's own.
        with urllib.request.urlopen(f"{address.rstrip('/')}/health", timeout=SERVER_TIMEOUT_S) as answer:
            if answer.status == 200:
                return Finding("prefect server", OK, f"{shown} answers")
            reason = f"HTTP {answer.status}"
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "reason", error))
    mend = "prefect server start, or unset PREFECT_API_URL"
    return Finding("prefect server", PROBLEM, f"PREFECT_API_URL: {shown} does not answer: {reason}", mend)


def without_secrets(address: str) -> str:
    """An address without user and password."""
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
