"""`gradebook evaluate` and `review` with a rubric that names functions of a user's package."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.samples import query

SOURCE = """
import os, sys

def polite(row):
    print("looking at", row["case_id"])
    if row["output"] == "leave":
        os._exit(9)
    while row["output"] == "stay":
        pass
    return ("good" if "thank" in row["output"] else "bad"), row["metadata"].get("note")
"""
RUBRIC = """
id: own
version: 1.0.0
pass_threshold: 0.1
criteria:
  - id: polite
    description: Does the reply thank the customer?
    weight: 1
    method: {type: function, function: "my_checks.tone:polite"}
    levels: [{id: bad, score: 0, description: No thanks.}, {id: good, score: 1, description: It thanks.}]
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Package, rubric and four outputs in the current folder; the third output kills the process that checks it."""
    (tmp_path / "my_checks").mkdir()
    (tmp_path / "my_checks" / "tone.py").write_text(SOURCE, encoding="utf-8")
    texts = ("thank you", "no", "leave", "thank you all")
    rows = [{"case_id": f"c{n}", "model": "m", "output": text, "note": "seen"} for n, text in enumerate(texts)]
    outputs, rubric = tmp_path / "outputs.jsonl", tmp_path / "rubric.yaml"
    outputs.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    rubric.write_text(RUBRIC, encoding="utf-8")
    return outputs, rubric


VERDICTS = "select level_id, reason, evidence from verdicts join outputs using (output_id) order by case_id"


def test_a_function_that_kills_its_process_leaves_one_row_unscored(evaluate, gradebook, files, tmp_path):
    outputs, rubric = files
    finished = evaluate(outputs, "--rubric", rubric, "--allow-functions", "my_checks")
    assert finished.json["rubric_id"] == "own", finished.err  # the function's output is not on stdout
    rows = query(gradebook, VERDICTS)
    assert [row["level_id"] for row in rows] == ["good", "bad", None, "good"]
    assert rows[2]["reason"] == "function's process ended (exit code 9)"
    assert rows[0]["evidence"] == "seen"
    assert "looking at c0" in next(tmp_path.glob("lake/runs/*/functions.log")).read_text(encoding="utf-8")


@pytest.mark.nightly
def test_the_command_line_allows_a_package_too(gradebook, files, tmp_path):
    (tmp_path / "reply.txt").write_text("thank you", encoding="utf-8")
    finished = gradebook("review", "reply.txt", "--rubrics", files[1], "--allow-functions", "my_checks.tone", "--json")
    assert (finished.code, finished.json["status"]) == (0, "approved"), finished.err
    (evaluation,) = finished.json["evaluations"]
    assert (evaluation["verdicts"][0]["level_id"], evaluation["notes"]) == ("good", [])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            (),
            "polite: found the function my_checks.tone:polite, whose package is not allowed, expected --allow-f",
        ),
        (("--allow-functions", "other"), "can only name fewer; with --allow-unscored it stays unscored"),
        (("--allow-functions", "my checks"), "--allow-functions: found 'my checks', expected names of packages"),
    ],
)
def test_a_function_that_is_not_allowed_is_refused_before_anything_runs(gradebook, files, tmp_path, words, message):
    finished = gradebook("evaluate", files[0], "--rubric", files[1], *words)
    assert (finished.code, message in finished.err) == (2, True), finished.err
    assert not (tmp_path / "lake").exists()


def test_a_missing_function_is_refused_before_anything_runs(gradebook, files, tmp_path):
    (tmp_path / "my_checks" / "tone.py").write_text("def kind(row): return True", encoding="utf-8")
    finished = gradebook("evaluate", files[0], "--rubric", files[1], "--allow-functions", "my_checks", "--dry-run")
    assert "the function my_checks.tone:polite: found no polite in my_checks.tone, expected a function" in finished.err
    assert (finished.code, (tmp_path / "lake").exists()) == (2, False)


@pytest.mark.nightly
def test_with_allow_unscored_a_function_that_is_not_allowed_stays_unscored(gradebook, files, tmp_path):
    (tmp_path / "reply.txt").write_text("thank you", encoding="utf-8")
    finished = gradebook("review", "reply.txt", "--rubrics", files[1], "--allow-unscored", "--json")
    (evaluation,) = finished.json["evaluations"]
    assert evaluation["verdicts"][0]["reason"] == "unsupported_method: function"
    assert "functions of packages that are not allowed: polite unscored" in evaluation["notes"]


def test_rows_may_not_name_functions_even_of_an_allowed_package(gradebook, files):
    own = [{"id": "own", "description": "d", "method": {"type": "function", "function": "my_checks.tone:polite"}}]
    row = {"case_id": "c", "model": "m", "output": "x", "criteria": own}
    files[0].write_text(json.dumps(row), encoding="utf-8")
    finished = gradebook("evaluate", files[0], "--rubric", "none", "--allow-functions", "my_checks", "--dry-run")
    expected = "criteria[0].method: found function, which no row may choose, expected check, schema, judge, ratings"
    assert (finished.code, expected in finished.err) == (2, True), finished.err


@pytest.mark.nightly
@pytest.mark.slow
def test_an_interrupted_run_ends_at_once_with_all_its_processes(gradebook, files, tmp_path):
    row = {"case_id": "c", "model": "m", "output": "stay"}
    files[0].write_text(json.dumps(row) + "\n", encoding="utf-8")
    (tmp_path / "gradebook.toml").write_text("[functions]\nrow_time_limit_s = 600", encoding="utf-8")
    command = [sys.executable, "-m", "gradebook.flows.cli", "evaluate", files[0], "--rubric", files[1]]
    command += ["--allow-functions", "my_checks"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not has_looked(tmp_path):
            time.sleep(0.05)
        calling = children_of(process.pid)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    said = "gradebook: interrupted; run the same command again to resume"
    assert (process.returncode, err.splitlines()[-1]) == (3, said), err
    assert calling and not any(Path(f"/proc/{pid}").exists() for pid in calling)


def has_looked(folder: Path) -> bool:
    """Whether the function was called: it prints its input."""
    return any(log.stat().st_size for log in folder.glob("lake/runs/*/functions.log"))


def children_of(pid: int) -> list[str]:
    """Child processes of a process."""
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return [child for thread in threads for child in thread.read_text(encoding="utf-8").split()]
