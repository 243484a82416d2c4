"""What gradebook is made of: a bill of materials of the lock, and the lock held against a database of advisories.

    python -m tests.support.supply sbom                 # CycloneDX 1.6 in JSON, on stdout
    python -m tests.support.supply audit ADVISORIES     # OSV's export of the ecosystem PyPI: a zip, or a folder of JSON

Neither asks a network. `audit` exits with 1 if a locked version is affected, with 2 if there are no advisories to ask.
"""

import json
import re
import sys
import tomllib
import uuid
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).parents[2]
LOCKS = ("requirements.lock", "requirements-dev.lock")
_HEAD = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def locked(lock: Path) -> dict[tuple[str, str], list[str]]:
    """SHA-256 of the files of each package of a lock, by canonical name and version; a Python may have its own."""
    found: dict[tuple[str, str], list[str]] = {}
    digests: list[str] = []
    for line in lock.read_text(encoding="utf-8").splitlines():
        if head := _HEAD.match(line):
            digests = found.setdefault((canonicalize_name(head[1]), head[2]), [])
        if digest := _HASH.search(line):
            digests.append(digest[1])
    return found


def sbom(lock: Path, project: dict[str, Any]) -> dict[str, Any]:
    """CycloneDX 1.6 of what a user installs; the same lock gives the same text."""
    own = {"type": "application", "name": project["name"], "version": project["version"], "bom-ref": project["name"]}
    components = [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}@{version}",
            "purl": f"pkg:pypi/{name}@{version}",
            "name": name,
            "version": version,
            "properties": [{"name": "lock:sha256", "value": digest} for digest in digests],
        }
        for (name, version), digests in sorted(locked(lock).items())
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, lock.read_text(encoding='utf-8'))}",
        "version": 1,
        "metadata": {"component": own},
        "components": components,
    }


def affecting(records: Iterable[dict[str, Any]], packages: Iterable[tuple[str, str]]) -> list[str]:
    """One line for each advisory that a locked version has."""
    versions: dict[str, list[str]] = {}
    for name, version in packages:
        versions.setdefault(name, []).append(version)
    found = {
        f"{name} {version}: {record['id']}: {record.get('summary', 'no summary')}"
        for record in records
        if not record.get("withdrawn")
        for affected in record.get("affected", [])
        if affected.get("package", {}).get("ecosystem") == "PyPI"
        for name in [canonicalize_name(str(affected["package"].get("name", "")))]
        for version in versions.get(name, [])
        if _is_affected(affected, version)
    }
    return sorted(found)


def _names(record: dict[str, Any]) -> set[str]:
    return {canonicalize_name(str(each.get("package", {}).get("name", ""))) for each in record.get("affected", [])}


def _is_affected(affected: dict[str, Any], version: str) -> bool:
    if version in affected.get("versions", []):
        return True
    return any(
        _is_in_range(each["events"], version)
        for each in affected.get("ranges", [])
        if each.get("type") in ("ECOSYSTEM", "SEMVER")
    )


def _is_in_range(events: list[dict[str, str]], version: str) -> bool:
    """Whether the last event at or before the version introduces the fault."""
    ours, is_hit = Version(version), False
    for at, kind in sorted((_order(at), kind) for event in events for kind, at in event.items()):
        if kind == "introduced" and at <= ours:
            is_hit = True
        if (kind == "fixed" and at <= ours) or (kind == "last_affected" and at < ours):
            is_hit = False
    return is_hit


def _order(version: str) -> Version:
    try:
        return Version(version)
    except InvalidVersion:
        return Version("0")  # counts as affected


def read_advisories(place: Path) -> Iterator[dict[str, Any]]:
    """Records of a zip or a folder."""
    if place.is_dir():
        for path in sorted(place.rglob("*.json")):
            yield json.loads(path.read_text(encoding="utf-8"))
        return
    with zipfile.ZipFile(place) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".json"):
                yield json.loads(archive.read(name))


def main(words: list[str]) -> int:
    """Run one of the two; returns the exit code."""
    if words[:1] == ["sbom"]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        sys.stdout.write(json.dumps(sbom(ROOT / LOCKS[0], project), indent=1) + "\n")
        return 0
    place = Path(words[1]) if len(words) > 1 and words[1] else None
    if place is None or not place.exists():
        sys.stderr.write(
            "make audit: found no advisories, expected OSV's export of the ecosystem PyPI, a zip or a folder of JSON: "
            "make audit ADVISORIES=all.zip. Nothing was compared, and nothing is downloaded.\n"
        )
        return 2
    packages = {package for lock in LOCKS for package in locked(ROOT / lock)}
    records = [each for each in read_advisories(place) if _names(each) & {name for name, _ in packages}]
    found = affecting(records, packages)
    sys.stdout.write("".join(f"{line}\n" for line in found))
    sys.stdout.write(f"{len(packages)} packages, {len(records):,} advisories name one, {len(found)} apply\n")
    if not records:
        sys.stderr.write("make audit: no advisory names a locked package: is this the export of PyPI?\n")
        return 2
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
