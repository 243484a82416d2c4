"""What is installed and who is called: locked packages, and the demo on a machine without a network."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.prefect_homes import embedded

ROOT = Path(__file__).parents[3]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+(\[[a-z0-9,_-]+\])?==[^\s\\]+( ; [^\\]+)?")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def requirements() -> list[str]:
    """The lock's requirements, each with its continued lines; comments are left out."""
    kept = "\n".join(line for line in LOCK.splitlines() if not line.lstrip().startswith("#"))
    return [line for line in kept.replace("\\\n", " ").splitlines() if line.strip()]


def test_every_requirement_is_of_one_version_and_has_hashes():
    assert len(requirements()) > 50
    for requirement in requirements():
        head, *hashes = re.split(r"\s+(?=--hash)", requirement.strip())
        assert REQUIREMENT.fullmatch(head.strip()), head
        assert hashes and all(HASH.fullmatch(each.strip()) for each in hashes), head


def test_the_lock_names_no_index_and_no_address():
    assert not re.search(r"^\s*(-|--index|--extra|--find|--trusted)", "\n".join(requirements()), re.MULTILINE)
    assert "://" not in LOCK and "file:" not in LOCK


@pytest.mark.slow
@pytest.mark.server
def test_the_demo_needs_no_network(tmp_path):
    """Only loopback is there, for Prefect's own server; integration/flows/test_prefect.py has `gradebook evaluate`."""
    unshare = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if not shutil.which("unshare") or subprocess.call([*unshare, "true"], stderr=subprocess.DEVNULL):
        pytest.skip("this machine lets nobody make a network namespace")
    command = [*unshare, sys.executable, "-m", "gradebook.flows.cli", "demo"]
    settings = embedded(tmp_path) | {"PYTHONPATH": str(ROOT)}
    finished = subprocess.run(
        command, cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=200, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert "report: " in finished.stdout
