"""Data quality by every door: SQL at each stage, expectation suites where they are asked for."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from gradebook.rubrics.model.errors import QualityNotMet
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import commit
from gradebook.tasks.marts.checks import checks_of
from gradebook.tasks.runs.quality_suites import ExpectationSuite
from gradebook.tasks.stages import quality
from gradebook.tasks.stages.quality import check_suites
from gradebook.tasks.stages.rebuild import rebuild_run
from gradebook.tasks.stages.rescore import RescoreRequest, rescore_run
from tests.support.samples import write_outputs, write_rubric

ROOT = Path(__file__).parents[3]
LONG = {"type": "expect_column_value_lengths_to_be_between", "kwargs": {"column": "output", "min_value": 1_000}}
FEW_RUNS = "select run_id, stage, subject, is_met, severity, engine from quality_results"


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    return write_outputs(tmp_path / "outputs.jsonl")


@pytest.fixture
def rubric(tmp_path: Path) -> Path:
    return write_rubric(tmp_path / "rubric.yaml")


@pytest.fixture
def suites(tmp_path: Path) -> Any:
    """Writer of a file of suites."""

    def write(*given: tuple[str, dict[str, Any]]) -> Path:
        file = tmp_path / "quality.json"
        file.write_text(json.dumps([{"name": name, "expectations": [each]} for name, each in given]), encoding="utf-8")
        return file

    return write


def query(gradebook: Any, sql: str) -> list[dict[str, Any]]:
    return gradebook("sql", sql, "--json").json


# -------- a team's suites
@pytest.mark.nightly
def test_a_critical_expectation_of_outputs_stops_the_run_before_a_request_and_is_recorded(
    evaluate, gradebook, judge, outputs, rubric, suites
):
    file = suites(("outputs.lengths", LONG))
    words = (outputs, "--rubric", rubric, "--judge", "gpt-4o-mini", "--run-id", "short")
    finished = evaluate(*words, "--quality", file)
    assert (finished.code, judge.request_count) == (3, 0)
    assert (
        "outputs.lengths: expect_column_value_lengths_to_be_between(column=output, min_value=1000), 12" in finished.err
    )
    (run,) = query(gradebook, "select status, reason from runs")
    assert (run["status"], "data quality: outputs.lengths" in run["reason"]) == ("failed", True)
    found = query(gradebook, f"{FEW_RUNS} where not is_met")
    row = {"stage": "ingest", "subject": "outputs.lengths", "is_met": False, "severity": "error"}
    assert found == [{"run_id": "short", **row, "engine": "great_expectations"}]
    # The suite is no part of the run's identity: the same run goes on with another, and its findings are those of now.
    suites(("outputs.lengths", LONG | {"severity": "warning"}))
    finished = evaluate(*words, "--quality", file)
    assert finished.json["run_id"] == "short"
    assert query(gradebook, f"{FEW_RUNS} where not is_met") == [found[0] | {"severity": "warning"}]
    (note,) = (note for note in finished.json["notes"] if "expectation" in note)
    assert note.startswith("expectation not met: outputs.lengths: expect_column_value_lengths_to_be_between(")
    assert judge.request_count > 0


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("table", "expectation", "stage"),
    [
        ("verdicts", {"type": "expect_column_values_to_be_null", "kwargs": {"column": "method"}}, "verdicts"),
        ("criterion_scores", {"type": "expect_table_row_count_to_equal", "kwargs": {"value": 99}}, "marts"),
        (
            "run_scores.means",
            {"type": "expect_column_max_to_be_between", "kwargs": {"column": "mean", "min_value": 2}},
            "marts",
        ),
    ],
)
def test_a_critical_expectation_of_scores_stops_the_publication(
    evaluate, gradebook, outputs, rubric, suites, table, expectation, stage
):
    finished = evaluate(outputs, "--rubric", rubric, "--quality", suites((table, expectation)))
    assert finished.code == 3
    assert query(gradebook, "from output_scores") == []
    (row,) = query(gradebook, f"{FEW_RUNS} where not is_met and engine = 'great_expectations'")
    assert (row["stage"], row["subject"], row["engine"]) == (stage, table, "great_expectations")


def test_an_expectation_that_cannot_be_computed_is_not_met_and_says_why(evaluate, gradebook, outputs, rubric, suites):
    mean = {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "model", "min_value": 0}}
    finished = evaluate(outputs, "--rubric", rubric, "--quality", suites(("outputs", mean | {"severity": "info"})))
    (note,) = (note for note in finished.json["notes"] if "expectation" in note)
    assert "expect_column_mean_to_be_between(column=model, min_value=0.0): not computed: " in note


@pytest.mark.nightly
def test_the_shipped_suites_run_where_they_are_asked_for(evaluate, gradebook, judge, outputs, rubric):
    evaluate(outputs, "--rubric", rubric, "--judge", "gpt-4o-mini", "--suites")
    found = query(
        gradebook,
        "select subject, bool_and(is_met) as is_met, count(*) as n from quality_results "
        "where engine = 'great_expectations' group by subject order by subject",
    )
    assert [(row["subject"], row["is_met"]) for row in found] == [
        ("judgments.gradebook", True),
        ("outputs.gradebook", True),
    ]


def test_a_wrong_suite_is_refused_before_anything_is_written(evaluate, gradebook, outputs, rubric, suites, tmp_path):
    wrong = (
        ("outputs", {"type": "expect_column_values_to_be_nice", "kwargs": {"column": "output"}}),
        ("outputs.a", {"type": "expect_column_values_to_be_between", "kwargs": {"column": "output", "min": 3}}),
        ("outputs.b", {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "output", "mostly": 2}}),
    )
    file = suites(*wrong)
    finished = evaluate(outputs, "--rubric", rubric, "--quality", file)
    assert finished.code == 2
    assert not (tmp_path / "lake").exists()
    lines = finished.err.splitlines()
    begins = (
        f"{file}: suite outputs, expectation 1: type: found 'expect_column_values_to_be_nice', expected one of expect_",
        f"{file}: suite outputs.a, expectation 1: kwargs.min: found 3, extra fields not permitted",
        f"{file}: suite outputs.b, expectation 1: kwargs.mostly: found 2, ensure this value is less than or equal to 1",
        f"{file}: suite outputs.b, expectation 1: kwargs.value_set: found none, field required",
    )
    for begin in begins:
        assert any(begin in line for line in lines), begin


def test_a_table_of_many_rows_is_checked_in_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(quality, "BATCH_ROWS", 2_048)
    duckdb.sql("select i % 2_000 as sample_index from range(4_000) as rows (i)").write_parquet(
        str(tmp_path / "o.parquet")
    )
    unique = {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "sample_index"}}
    suite = ExpectationSuite(name="outputs", expectations=(unique,))
    found = list(check_suites(None, "outputs", [suite], [str(tmp_path / "o.parquet")]))
    assert [(row["subject"], row["unexpected_count"]) for row in found] == [("outputs", 96), ("outputs · batch 2", 0)]


# -------- SQL, by every door
def sql_rows(connection_rows: list[dict[str, Any]]) -> set[str]:
    return {row["stage"] for row in connection_rows if row["engine"] == "sql" and row["is_met"]}


def test_a_run_a_review_and_a_rescore_are_checked_in_sql_at_each_stage(
    evaluate, gradebook, judge, outputs, rubric, tmp_path
):
    finished = evaluate(outputs, "--rubric", rubric, "--judge", "gpt-4o-mini", "--run-id", "run")
    gradebook("review", outputs, "--rubrics", "json_record")
    gradebook("rubric", "reweigh", finished.json["run_id"], "--rubric", rubric, "--run-id", "again")
    rows = query(gradebook, FEW_RUNS)
    by_run = {run_id: [row for row in rows if row["run_id"] == run_id] for run_id in {row["run_id"] for row in rows}}
    (review,) = by_run.keys() - {"run", "again"}
    assert sql_rows(by_run["run"]) == {"ingest", "verdicts", "judgments", "marts"}
    assert sql_rows(by_run[review]) == sql_rows(by_run["again"]) == {"ingest", "verdicts", "marts"}
    assert {row["engine"] for row in rows} == {"sql"}
    assert len([row for row in by_run["again"] if row["stage"] == "marts"]) == len(checks_of("marts"))


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("update verdicts set score = 1.5 where score is not null", "Values of verdicts are in range: score 0..1"),
        ("update judgments set cost_usd = -1", "Values of judgments are in range: cost_usd at least 0"),
        ("insert into verdicts from verdicts", "verdicts has one row per output_id, criterion_id"),
    ],
)
def test_a_rebuild_and_a_rescore_refuse_rows_that_break_a_rule(judged_run, tmp_path, fault, words):
    uri = f"sqlite:{tmp_path}/lake/catalog.sqlite"
    lake = find_lake(uri)
    commit(lake, "a fault", lambda connection, _version: connection.execute(fault) and None)
    with pytest.raises(QualityNotMet, match=words):
        rebuild_run(lake, judged_run["run_id"], out=tmp_path / "marts")
    assert not (tmp_path / "marts").exists()
    if "verdicts" in fault:
        with pytest.raises(QualityNotMet, match=words):
            rescore_run(RescoreRequest(judged_run["run_id"], str(tmp_path / "rubric.yaml"), lake=uri))


@pytest.mark.nightly
def test_a_run_without_suites_imports_no_great_expectations(tmp_path):
    write_outputs(tmp_path / "outputs.jsonl", count=2)
    code = (
        "import sys; from pathlib import Path; from tests.support.published_runs import publish;"
        "publish(Path('outputs.jsonl').resolve(), 'json_record'); print('great_expectations' in sys.modules)"
    )
    environment = {"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(tmp_path)}
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert finished.stdout == "False\n"


# -------- the guide
@pytest.mark.nightly
def test_the_guides_suite_finds_what_the_guide_shows(evaluate, gradebook, judge, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/quality.md").read_text(encoding="utf-8")
    lines, suite = re.findall(r"^```json\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    message, fault, table = re.findall(r"^```text\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (command,) = re.findall(r"^gradebook evaluate (.*)$", page, re.MULTILINE)
    (tmp_path / "outputs.jsonl").write_text(lines, encoding="utf-8")
    write_rubric(tmp_path / "rubric.yaml")
    (tmp_path / "quality.json").write_text(suite, encoding="utf-8")
    finished = evaluate(*command.split())
    stages = "starting\nreading outputs\nplanning judgments\n"  # what the guide leaves out
    assert (finished.code, finished.err, judge.request_count) == (3, stages + message, 0)
    misspelt = '"column": "outptu", "min_value"'.join(suite.split('"column": "output", "min_value"'))
    (tmp_path / "quality.json").write_text(misspelt, encoding="utf-8")
    assert evaluate(*command.split()).err.removeprefix("gradebook: ") == fault
    (tmp_path / "quality.json").write_text(suite.replace("critical", "warning"), encoding="utf-8")
    assert evaluate(*command.split()).code in (0, 1)
    (select,) = re.findall(r"^```sql\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    cells = [[str(cell) for cell in row.values()] for row in query(gradebook, select)]
    assert cells == [line.split() for line in table.splitlines()[2:]]
