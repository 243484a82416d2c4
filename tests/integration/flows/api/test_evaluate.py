"""evaluate, check, open_lake and load_rubric from Python: the same runs as the command's."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gradebook
from gradebook.flows.api.inputs import outputs_path
from tests.support.loopback_judge import LoopbackJudge
from tests.support.published_runs import publish
from tests.support.samples import write_lines

RUBRIC = {
    "id": "reply",
    "version": "1.0.0",
    "pass_threshold": 0.5,
    "criteria": [
        {
            "id": "length",
            "description": "2 to 9 words.",
            "method": {"type": "check", "check": "length_words", "settings": {"min": 2, "max": 9}},
        },
        {
            "id": "right",
            "description": "The reference.",
            "method": {"type": "check", "check": "exact_match"},
        },
    ],
}
ROWS = [
    {"case_id": "a", "model": "m", "output": "two words", "reference": "two words", "checkpoint": 100},
    {"case_id": "b", "model": "m", "output": "four", "reference": "other", "checkpoint": 100},
]


class Capsule:
    """A table of a library that gradebook does not know: it has Arrow's stream alone."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.fixture(autouse=True)
def lake(tmp_path, monkeypatch):
    """The lake of the environment; no Prefect, as most callers have it."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    uri = f"sqlite:{tmp_path}/lake/catalog.sqlite"
    monkeypatch.setenv("GRADEBOOK_LAKE", uri)
    return uri


def table_of(run: gradebook.Run) -> list[dict[str, Any]]:
    return run.to_arrow().select(["output_id", "case_id", "score", "length", "right"]).to_pylist()


# -------- outputs in every form
@pytest.mark.nightly
def test_every_form_of_outputs_gives_the_run_of_the_command(tmp_path, capfd):
    path = write_lines(tmp_path / "outputs.jsonl", ROWS)
    rubric = tmp_path / "reply.yaml"
    rubric.write_text(gradebook_yaml(), encoding="utf-8")
    published = publish(path, rubric).run_id
    by_command = gradebook.open_lake().run(published)
    capfd.readouterr()  # whatever the command said
    floats = pd.DataFrame(ROWS).astype({"checkpoint": float})
    table = pa.Table.from_pylist(ROWS)
    views = table.set_column(1, "model", table.column("model").cast(pa.string_view()))
    run = gradebook.evaluate(Capsule(views), RUBRIC, run_id="run")
    assert (table_of(run), run.scores.drop_columns("cost_usd")) == (
        table_of(by_command),
        by_command.scores.drop_columns("cost_usd"),
    )
    assert [row["score"] for row in table_of(run)] == [1.0, 0.0]
    # the other forms become files of the same rows
    assert outputs_path(path, tmp_path) == str(path)
    assert [rows_of(outputs_path(form, tmp_path)) for form in (ROWS, table, floats, iter(ROWS))] == [ROWS] * 4
    assert {row["rubric_version"] for row in gradebook.open_lake().runs} == {"1.0.0"}
    assert capfd.readouterr() == ("", "")  # nothing is printed


def rows_of(path: str) -> list[dict[str, Any]]:
    if path.endswith(".parquet"):
        return list(pq.read_table(path).to_pylist())
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def gradebook_yaml() -> str:
    from gradebook.rubrics.files.dump import rubric_yaml

    return rubric_yaml(gradebook.load_rubric(RUBRIC))


@pytest.mark.nightly
def test_a_run_id_reads_its_published_run_back_and_takes_no_other_outputs_or_rubric():
    first, second = (gradebook.evaluate(ROWS, RUBRIC, run_id="night") for _ in range(2))
    assert (table_of(second), len(gradebook.open_lake().runs)) == (table_of(first), 1)
    with pytest.raises(gradebook.InputError, match="which evaluated other outputs"):
        gradebook.evaluate(ROWS[:1], RUBRIC, run_id=first.run_id)
    with pytest.raises(gradebook.RubricError, match="found another text than the 1.0.0"):
        gradebook.evaluate(ROWS, RUBRIC | {"pass_threshold": 0.6})


@pytest.mark.nightly
def test_nan_is_missing_and_a_row_of_mixed_types_is_quarantined():
    frame = pd.DataFrame([*ROWS, {"case_id": "c", "model": "m", "output": 7, "reference": float("nan")}])
    run = gradebook.evaluate(frame, RUBRIC, max_bad_rate=0.5)
    assert run.outputs.num_rows == 2
    assert run.sql("select line, reason from quarantine").to_pylist() == [
        {"line": 3, "reason": "output: found the number 7, expected text"}
    ]


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ([], "outputs: found no rows, expected one or more"),
        (pd.DataFrame({"case_id": []}), "outputs: found no rows"),
        ({"case_id": "a"}, "outputs: found one row, expected a path, a list of dicts"),
        (["text"], "outputs:1: found a str, expected a dict"),
        (7, "outputs: found a int"),
        ([{"case_id": "a", "model": "m", "output": object()}], "outputs:1: found a value of type object"),
        (pa.table({"case_id": ["a"], "text": ["b"]}), "model"),
        (pd.DataFrame([["a", "b"]], columns=["output", "output"]), "the column 'output' twice"),
    ],
)
def test_other_outputs_are_refused_before_anything_is_written(outputs, words, tmp_path):
    with pytest.raises(gradebook.InputError) as refused:
        gradebook.evaluate(outputs, RUBRIC)
    assert words in str(refused.value)
    assert "gradebook-evaluate-" not in str(refused.value)
    assert not any((tmp_path / "lake").glob("runs/*"))


def test_nan_in_a_table_of_arrow_is_a_missing_number(tmp_path):
    table = pa.table({"case_id": ["a", "b"], "sample_index": [1.0, float("nan")]})
    assert pq.read_table(outputs_path(table, tmp_path))["sample_index"].to_pylist() == [1, None]


# -------- where it runs
@pytest.mark.nightly
def test_it_runs_inside_a_loop_and_in_threads(lake):
    async def inside() -> gradebook.Run:
        return gradebook.evaluate(ROWS, RUBRIC, run_id="inside")

    found = asyncio.run(inside())
    others: list[gradebook.Run] = []
    threads = [
        threading.Thread(target=lambda n=n: others.append(gradebook.evaluate(ROWS, RUBRIC, run_id=f"thread-{n}")))
        for n in range(2)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [table_of(run) for run in others] == [table_of(found)] * 2


@pytest.mark.nightly
def test_an_interrupt_stops_it_and_loses_no_judgment(tmp_path, lake):
    with LoopbackJudge() as judge:
        judge.held_after = 3
        rows = [{"case_id": f"c{n}", "model": "m", "output": f"answer {n}"} for n in range(8)]
        rubric = {
            "id": "kind",
            "version": "1.0.0",
            "criteria": [
                {
                    "id": "tone",
                    "description": "Is it kind?",
                    "method": {"type": "judge"},
                    "levels": [{"id": "bad", "score": 0}, {"id": "good", "score": 1}],
                }
            ],
        }
        code = f"""
        import gradebook, os, signal, threading, time
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        def stop():
            while not any(open(each).read().count("\\n") >= 3 for each in journals()):
                time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)
        def journals():
            folder = {str(tmp_path / "lake")!r}
            files = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]
            return [each for each in files if each.endswith(".jsonl") and "journal" in each]
        threading.Thread(target=stop, daemon=True).start()
        gradebook.evaluate({rows!r}, {rubric!r}, "m")
        """
        environ = os.environ | {"OPENAI_BASE_URL": judge.base_url, "OPENAI_API_KEY": "k"}
        ended = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env=environ,
            cwd=Path(__file__).parents[4],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (ended.returncode, "KeyboardInterrupt" in ended.stderr) == (-signal.SIGINT, True)
        assert gradebook.open_lake().sql("select count(*) as n from judgments").to_pylist() == [{"n": 3}]


# -------- what is read back
def test_a_run_answers_for_itself(tmp_path):
    worse = [ROWS[0] | {"output": "no"}, ROWS[1]]
    first, second = (gradebook.evaluate(rows, RUBRIC, dataset="night") for rows in (ROWS, worse))
    assert (first.is_met, second.is_met, second.failed().num_rows) == (True, False, 2)
    assert second.criteria.num_rows == 2
    assert "right" in first.to_pandas().columns
    difference = second.compare(first, fail_if="mean_diff < 0")
    assert repr(difference) == f"<Difference: {difference.verdict.sentence}>"
    assert (difference.is_failed, difference.as_dict()["overall"][0]["mean_diff"]) == (True, -0.5)
    assert second.report(tmp_path / "night.md").read_text(encoding="utf-8").startswith("**m @ 100 may not ship")
    with pytest.raises(gradebook.InputError, match=r"ends in \.html, \.md, \.png"):
        second.report(tmp_path / "night.pdf")
    assert first.run_id in repr(first)


def test_text_of_a_model_is_escaped_in_a_notebook():
    run = gradebook.evaluate([ROWS[0] | {"model": "<script>x"}], RUBRIC)
    assert "&lt;script&gt;x" in run._repr_html_()
    assert "<script>" not in run._repr_html_() + gradebook.open_lake()._repr_html_()


def test_a_lake_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(gradebook.LakeError):
        gradebook.open_lake(f"sqlite:{tmp_path}/none/catalog.sqlite")


# -------- rubrics
def test_a_rubric_made_in_python_is_the_one_of_its_file(tmp_path):
    made = gradebook.Rubric(**RUBRIC)
    path = tmp_path / "reply.yaml"
    path.write_text(gradebook_yaml(), encoding="utf-8")
    assert gradebook.load_rubric(made) == gradebook.load_rubric(path) == gradebook.load_rubric(RUBRIC)
    assert gradebook.lint(made) == gradebook.lint(RUBRIC)


def test_a_rubric_that_is_wrong_names_every_fault():
    checks = [{**each, "method": {"type": "check", "check": "lenght_words"}} for each in RUBRIC["criteria"]]
    with pytest.raises(gradebook.RubricError) as refused:
        gradebook.load_rubric(RUBRIC | {"criteria": checks, "pass_threshold": 2})
    assert [fault.path for fault in refused.value.faults] == ["reply"] * 3


# -------- check
def test_check_fails_with_the_criteria_as_a_table():
    row = {"output": "one", "reference": "one"}
    with pytest.raises(AssertionError) as failed:
        gradebook.check(row, RUBRIC | {"pass_threshold": 0.9})
    assert "score 0.5, needs 0.9: not passed" in str(failed.value)
    assert "length     0             fail   1 word, at least 2 required" in str(failed.value)
    assert gradebook.check(row, RUBRIC, at_least=0.5).score == 0.5
    with pytest.raises(AssertionError):
        gradebook.check(row, RUBRIC, at_least=0.6)


def test_check_refuses_a_rubric_that_nothing_can_fail():
    with pytest.raises(gradebook.InputError, match="no pass_threshold, gate or required threshold"):
        gradebook.check("x", {key: value for key, value in RUBRIC.items() if key != "pass_threshold"})


def test_check_does_not_pass_an_output_that_nothing_scored():
    with pytest.raises(AssertionError, match="unscored"):
        gradebook.check("two words", RUBRIC | {"pass_threshold": 0.6})  # without a reference: 0.5 to 1
