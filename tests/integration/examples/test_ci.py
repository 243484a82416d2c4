"""The script of a CI job, run as a job runs it, with stand-ins for the programs that comment."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
ROWS = '{"case_id": "a", "model": "m", "output": "{\\"id\\": 1}"}\n{"case_id": "b", "model": "m", "output": "no"}\n'
PROGRAM = '#!/bin/sh\nfor word; do echo "$word"; done >> called-$(basename "$0")\n'


@pytest.fixture
def job(tmp_path: Path):
    """Function that runs the script in a folder with outputs; values: of the job's environment."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("gh", "curl"):
        (programs / name).write_text(PROGRAM, encoding="utf-8")
        (programs / name).chmod(0o755)
    (tmp_path / "outputs.jsonl").write_text(ROWS, encoding="utf-8")
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"

    def run(**values: str) -> subprocess.CompletedProcess[str]:
        known = {"PATH": path, "OUTPUTS": "outputs.jsonl", "RUBRIC": "json_record", "COMMENT": "true"}
        known |= {"GITHUB_STEP_SUMMARY": "summary.md", "GITHUB_OUTPUT": "output.txt"}
        script = ["bash", str(ROOT / "examples" / "ci" / "evaluate.sh")]
        return subprocess.run(
            script, cwd=tmp_path, env={**os.environ, **known, **values}, capture_output=True, text=True, check=False
        )

    return run


@pytest.mark.nightly
def test_a_gate_that_is_not_met_fails_the_job_and_is_told_on_the_pull_request(job, tmp_path: Path):
    merge_request = {"CI_MERGE_REQUEST_IID": "7", "GITLAB_TOKEN": "t", "CI_PROJECT_ID": "3", "CI_API_V4_URL": "u"}
    finished = job(PULL_REQUEST="12", DATA="files", **merge_request)
    assert finished.returncode == 1, finished.stderr
    assert list((tmp_path / "files" / "data").rglob("*.parquet"))
    comment = (tmp_path / "comment.md").read_text(encoding="utf-8")
    assert comment == (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert "json_record" in comment
    called = (tmp_path / "called-gh").read_text(encoding="utf-8").split("\n")
    assert called[:5] == ["pr", "comment", "12", "--body-file", "comment.md"]
    assert "u/projects/3/merge_requests/7/notes" in (tmp_path / "called-curl").read_text(encoding="utf-8").split("\n")
    told = dict(line.split("=", 1) for line in (tmp_path / "output.txt").read_text(encoding="utf-8").splitlines())
    assert Path(told["report"]).read_text(encoding="utf-8").startswith("<!doctype html>")
    assert told["run-id"].startswith("ci-")


def test_a_wrong_file_ends_the_job_and_no_value_is_run(job, tmp_path: Path):
    finished = job(OUTPUTS="$(touch run) `touch run`; touch run #.jsonl", PULL_REQUEST="12")
    assert finished.returncode == 2
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "called-gh").exists()


def test_the_action_hands_its_inputs_to_the_script_by_the_environment():
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    (step,) = action["runs"]["steps"]
    assert step["run"] == 'bash "$ACTION_PATH/examples/ci/evaluate.sh"'
    named = {value.removeprefix("${{ inputs.").removesuffix(" }}") for value in step["env"].values()}
    assert set(action["inputs"]) <= named
    script = (ROOT / "examples" / "ci" / "evaluate.sh").read_text(encoding="utf-8")
    assert [
        name for name in step["env"] if name not in ("ACTION_PATH", "GH_TOKEN", "GRADEBOOK_LAKE") and name not in script
    ] == []
