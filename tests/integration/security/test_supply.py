"""What is installed and who is called: locked packages, and the demo on a machine without a network."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.support.law_over import law_over
from tests.support.prefect_homes import person
from tests.support.supply import affecting, sbom
from tests.support.supply import main as audit

ROOT = Path(__file__).parents[3]
LOCKS = [ROOT / "requirements.lock", ROOT / "requirements-dev.lock"]
REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+(\[[a-z0-9,_-]+\])?==[^\s\\]+( ; [^\\]+)?")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def requirements(lock: Path) -> list[str]:
    """A lock's requirements, each with its continued lines; comments are left out."""
    text = lock.read_text(encoding="utf-8")
    kept = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    return [line for line in kept.replace("\\\n", " ").splitlines() if line.strip()]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_every_requirement_is_of_one_version_and_has_hashes(lock):
    assert len(requirements(lock)) > 50
    for requirement in requirements(lock):
        head, *hashes = re.split(r"\s+(?=--hash)", requirement.strip())
        assert REQUIREMENT.fullmatch(head.strip()), head
        assert hashes and all(HASH.fullmatch(each.strip()) for each in hashes), head


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_a_lock_names_no_index_and_no_address(lock):
    assert not re.search(r"^\s*(-|--index|--extra|--find|--trusted)", "\n".join(requirements(lock)), re.MULTILINE)
    text = lock.read_text(encoding="utf-8")
    assert "://" not in text and "file:" not in text


def test_users_get_the_versions_that_developers_test_and_none_of_their_tools():
    users, developers = ({each.split()[0] for each in requirements(lock)} for lock in LOCKS)
    assert users < developers
    names = {each.partition("==")[0] for each in users}
    assert not names & {"pytest", "moto", "flask", "playwright", "boto3", "mypy", "ruff", "hypothesis"}


def test_the_bill_of_materials_lists_what_users_install():
    bill = sbom(LOCKS[0], {"name": "gradebook", "version": "1"})
    listed = {(each["name"], each["version"]) for each in bill["components"]}
    written = [[*re.split(r"==| |\[", each)[:1], each.split("==")[1].split()[0]] for each in requirements(LOCKS[0])]
    assert listed == {(canonicalize_name(name), version) for name, version in written}
    assert bill["bomFormat"] == "CycloneDX" and bill == sbom(LOCKS[0], {"name": "gradebook", "version": "1"})


@law_over(
    ("affected", "is_hit"),
    [
        ({"versions": ["2.0"]}, True),
        ({"versions": ["2.1"]}, False),
        ({"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.0"}]}]}, False),
        ({"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.0.1"}]}]}, True),
        ({"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "1.9"}, {"last_affected": "2.0"}]}]}, True),
        ({"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "2.0.1"}]}]}, False),
        ({"ranges": [{"type": "GIT", "events": [{"introduced": "0"}]}]}, False),
    ],
)
def test_an_advisory_applies_to_the_versions_that_it_names(affected, is_hit):
    record = {"id": "A-1", "summary": "s", "affected": [{"package": {"ecosystem": "PyPI", "name": "A_b"}, **affected}]}
    assert affecting([record], [("a-b", "2.0")]) == (["a-b 2.0: A-1: s"] if is_hit else [])
    assert affecting([record | {"withdrawn": "2026-01-01"}], [("a-b", "2.0")]) == []


def test_without_advisories_the_audit_says_that_nothing_was_compared(tmp_path, capsys):
    assert audit(["audit", ""]) == audit(["audit", str(tmp_path / "none.zip")]) == audit(["audit", str(tmp_path)]) == 2
    assert "Nothing was compared" in capsys.readouterr().err


@pytest.mark.nightly
@pytest.mark.slow
def test_the_demo_needs_no_network(tmp_path):
    """Only loopback is there; integration/flows/test_prefect.py runs a flow so."""
    unshare = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if not shutil.which("unshare") or subprocess.call([*unshare, "true"], stderr=subprocess.DEVNULL):
        pytest.skip("this machine lets nobody make a network namespace")
    command = [*unshare, sys.executable, "-m", "gradebook.flows.cli", "demo"]
    settings = person(tmp_path) | {"PYTHONPATH": str(ROOT)}
    finished = subprocess.run(
        command, cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=200, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert "report: " in finished.stdout
