"""The mart `run_comparisons`: a run compared with its baseline before publication, and refusals."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradebook.flows.display.comparison import show_run_comparison
from gradebook.rubrics.files.load import read_rubric
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.statistics.comparison import WIN_FIGURES
from gradebook.tasks.comparing.baseline import Baseline, BaselineSearch, baseline_notes, choose_baseline, store_baseline
from gradebook.tasks.comparing.compare import ComparisonOptions, compare_runs
from gradebook.tasks.comparing.gate import GateFinding, GateRule, gate_rule
from gradebook.tasks.comparing.run_comparison import (
    RunComparison,
    comparison_table,
    read_run_comparison,
    show_unpublished,
)
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.errors import NoLakeThere
from gradebook.tasks.lake.rows import read_rows
from gradebook.tasks.published.summary import failed_models, summarise
from gradebook.tasks.reporting.page import write_report
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.stages.check_request import check_request
from gradebook.tasks.stages.open_run import opened_run
from gradebook.tasks.stages.rebuild import rebuild_run
from gradebook.tasks.workspace.folder import LATEST, RunFolder
from tests.support.nightly import matrix
from tests.support.published_runs import NOW, publish
from tests.support.samples import write_lines
from tests.support.scored_lake import make_lake, write_scores

RUBRIC = """
id: {rubric}
version: {version}
missing: skip
criteria:
  - id: brief
    description: At most {most} words.
    category: form
    weight: 2
    method: {{type: check, check: length_words, settings: {{max: {most}}}}}
  - id: full
    description: At least 3 words.
    method: {{type: check, check: length_words, settings: {{min: 3}}}}
  - id: liked
    description: Did a person like it?
    method: {{type: ratings}}
    levels: [{{id: disliked, score: 0}}, {{id: liked, score: 1}}]
"""
GOOD, LONG = "one two three four", "one two three four five six"


def write_rubric(folder: Path, rubric: str = "words", version: str = "1.0.0", most: int = 5) -> Path:
    path = folder / f"{rubric}-{version}.yaml"
    path.write_text(RUBRIC.format(rubric=rubric, version=version, most=most), encoding="utf-8")
    return path


def write_outputs(folder: Path, name: str, good_count: int, *models: str, **columns: Any) -> Path:
    """Outputs of 12 cases by each model, good_count of them brief; the first case has a per-case criterion."""
    method = {"type": "check", "check": "length_words", "settings": {"max": 4}}
    own = [{"id": "terse", "description": "At most 4 words.", "method": method}]
    rows = [
        {"case_id": f"c{case}", "model": model, "output": GOOD if case < good_count else LONG}
        | columns
        | ({"criteria": own} if case in (0, 5) else {})
        for case in range(12)
        for model in models
    ]
    return write_lines(folder / f"{name}.jsonl", rows)


def write_ratings(folder: Path, count: int, level: str) -> str:
    """Ratings of the first cases of m."""
    shared = {"model": "m", "criterion_id": "liked", "rater": "r", "level_id": level}
    return str(write_lines(folder / "ratings.jsonl", [{"case_id": f"c{case}", **shared} for case in range(count)]))


OWN_RULE, RULE = "criterion.terse.mean_diff < 0", "any criterion (mean_diff < -0.4) or p_mcnemar > 2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lake with run a of the models m and n, run b (worse), and run c of m and another model on a later version.

    Between them a run of the model z, of the same rubric.
    """
    folder = tmp_path_factory.mktemp("kept")
    first, later = write_rubric(folder), write_rubric(folder, version="2.0.0", most=6)
    outputs = write_outputs(folder, "a", 10, "m", "n")
    publish(outputs, first, ratings=write_ratings(folder, 5, "liked"), run_id="a", baseline="latest", fail_if=OWN_RULE)
    write_scores(lake_in(folder), "z", read_rubric(str(first)), [output("z")])
    ratings = write_ratings(folder, 3, "disliked")
    outputs = write_outputs(folder, "b", 2, "m", "n")
    publish(outputs, first, ratings=ratings, run_id="b", baseline="latest", fail_if=RULE)
    outputs = write_outputs(folder, "c", 3, "m", "new")
    publish(outputs, later, run_id="c", baseline="b", fail_if="mean_diff < 0")
    return folder


def output(model: str, checkpoint: str | None = None) -> dict[str, Any]:
    scores = {"brief": 1.0, "full": 1.0, "liked": 1.0}
    return {"case_id": "c0", "model": model, "checkpoint": checkpoint, "scores": scores}


def lake_in(folder: Path) -> Lake:
    return find_lake(f"sqlite:{folder}/lake/catalog.sqlite")


def rows_of(folder: Path, query: str) -> tuple[dict[str, Any], ...]:
    with connect(lake_in(folder), read_only=True) as connection:
        return read_rows(connection, query)


def settings_of(folder: Path, run_id: str) -> Any:
    return json.loads(rows_of(folder, f"select settings from runs where run_id = '{run_id}'")[0]["settings"])


def comparison_of(folder: Path, run_id: str) -> RunComparison:
    found = summarise(lake_in(folder), run_id).comparison
    assert found is not None
    return found


# -------- the table
@pytest.mark.nightly
def test_a_later_comparison_gives_the_same_figures_to_the_bit(folder):
    expected = comparison_table(compare_runs(lake_in(folder), "a", "b").models, "a", "b").to_pylist()
    rows = rows_of(folder, "from run_comparisons where run_id = 'b'")
    assert len(rows) == 2 * (1 + 1 + 4)  # for each model: overall, a category, and four criteria, one of them per-case
    assert sorted(rows, key=repr) == sorted(expected, key=repr)


@pytest.mark.nightly
def test_a_rebuild_repeats_the_comparison_with_the_same_rows(folder):
    checked = rebuild_run(lake_in(folder), "b", is_checked=True)
    assert [check.mart for check in checked.checks if not check.is_equal] == []


def test_the_rows_equal_the_command_s_output(folder):
    printed = compare_runs(lake_in(folder), "a", "b").as_json()["overall"][0]
    (row,) = rows_of(folder, "from run_comparisons where scope = 'overall' and model = 'm'")
    of_command_alone = {"model_a", "model_b", "criterion_id", *WIN_FIGURES}
    assert row == row | {name: printed[name] for name in printed.keys() - of_command_alone}


def test_the_parts_add_up_with_missing_scores(folder):
    query = "select model, sum(part) as part, max(mean_diff) filter (scope = 'overall') as diff from run_comparisons"
    rows = rows_of(folder, f"{query} where run_id = 'b' group by model")
    assert [row["part"] for row in rows] == pytest.approx([row["diff"] for row in rows], abs=1e-12)


def test_no_check_finds_a_fault_in_the_rows(folder):
    query = "select subject, is_met from quality_results where run_id = 'b' and subject like 'run_comparisons%'"
    assert {row["subject"]: row["is_met"] for row in rows_of(folder, query)} == dict.fromkeys(
        ("run_comparisons_grain", "run_comparisons_in_range", "run_comparisons_parts_add_up"), True
    )


def test_only_the_baseline_of_the_lake_is_read(folder, tmp_path):
    run = RunFolder(tmp_path / "d")
    with connect(lake_in(folder), read_only=True) as connection:
        marts = {mart: run.mart_file(mart) for mart in ("output_scores", "run_scores")}
        for table, file in ({"verdicts": run.collected_file(0)} | marts).items():
            file.parent.mkdir(parents=True, exist_ok=True)
            connection.execute(f"copy (from lake.{table} limit 0) to '{file}' (format parquet)")
        shard = str(tmp_path / "shard.parquet")
        connection.execute(f"copy (from lake.outputs limit 0) to '{shard}' (format parquet)")
        show_unpublished(connection, run, [shard], "a")
        query = "explain analyze select sum(score) from verdicts where run_id in ('a', 'b', 'c')"
        plan = connection.execute(query).fetchall()[0][1]
    assert re.findall(r"Total Files Read: (\d+)", plan) == ["1", "1"]  # of the lake's and of the run's


# -------- which run is the baseline
def test_the_baseline_is_among_the_settings(folder):
    expected = {"baseline": "latest", "baseline_run_id": "a", "fail_if": RULE}
    assert settings_of(folder, "b") == settings_of(folder, "b") | expected


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ([output("m"), output("n")], "c"),
        ([output("z")], "z"),
        ([output("z", "1200")], "z"),  # one model in each run
        ([output("m", "1200")], "c"),  # a later checkpoint of m
        ([output("m", "1200"), output("m", "1300")], None),  # ambiguous
        ([output("m", "1200"), output("m", "1300"), output("z")], "z"),
        ([output("other")], None),
    ],
)
def test_latest_is_the_last_run_with_a_model_in_common(folder, tmp_path, outputs, expected):
    run = RunFolder(tmp_path / "d")
    run.mart_file("run_scores").parent.mkdir(parents=True)
    groups = ", ".join(f"('{row['model']}', nullif('{row['checkpoint'] or ''}', ''))" for row in outputs)
    with connect(lake_in(folder), read_only=True) as connection:
        file = run.mart_file("run_scores")
        connection.execute(f"copy (from (values {groups}) as scores (model, checkpoint)) to '{file}' (format parquet)")
        files = [str(run.mart_file("run_scores"))]
        found = [
            choose_baseline(connection, lake_in(folder), files, BaselineSearch("d", each), LATEST, failed_models).run_id
            for each in ("words", "others")
        ]
    assert found == [expected, None]


def test_a_first_run_has_no_comparison_and_its_rule_fails_nothing(folder):
    summary = summarise(lake_in(folder), "a")
    note = "no earlier run of words has a model in common: no comparison, and --fail-if is not checked"
    assert (summary.run["notes"][-1], summary.is_met, summary.comparison) == (note, True, None)


@pytest.mark.nightly
def test_unpaired_parts_are_noted(folder):
    shown = "not compared with b: brief: another description and method; n: only in b; new: only in this run"
    assert summarise(lake_in(folder), "c").run["notes"][-1] == shown


def test_many_unpaired_parts_are_cut_to_a_few_names(tmp_path):
    store_baseline(RunFolder(tmp_path), Baseline("a", tuple("abcdefghijkl")))
    (note,) = baseline_notes("words", RunFolder(tmp_path), "a", None)
    assert note == "not compared with a: a; b; c; d; e; f; g; h; i; j; and 2 more"


# -------- the rule
def test_a_gate_that_failed_is_one_unmet_requirement_with_each_model(folder):
    summary = summarise(lake_in(folder), "b")
    assert (summary.is_met, summary.has_requirement, len(summary.unmet)) == (False, True, 1)
    assert str(summary.unmet[0]).startswith(f"gate failed: required not ({RULE}), found ")
    assert "; n: " in str(summary.unmet[0])


def test_the_gate_is_the_one_of_the_command(folder):
    found = comparison_of(folder, "b").gate
    assert (
        found == compare_runs(lake_in(folder), "a", "b", ComparisonOptions(gate=GateRule(RULE), resample_count=0)).gate
    )


@pytest.mark.parametrize(("rule", "is_failed"), [("mean_diff < -0.9", False), (OWN_RULE, True), (None, None)])
def test_a_rule_fails_if_it_holds(folder, rule, is_failed):
    with connect(lake_in(folder), read_only=True) as connection:
        found = read_run_comparison(connection, lake_in(folder), "b", "a", gate_rule(rule, None))
    assert (None if found.gate is None else found.gate.is_failed, bool(found.unmet)) == (is_failed, bool(is_failed))


def test_over_another_rubric_version_the_overall_difference_is_unknown(folder):
    found = comparison_of(folder, "c")
    assert {row["scope_id"] for row in found.figures} == {"full", "liked", "terse"}
    (unmet,) = found.unmet
    assert unmet == (
        "gate undecided: required not (mean_diff < 0), found m: the rubric changed from words 1.0.0 to words 2.0.0, "
        "so overall scores are not compared; not compared: n: only in b; new: only in this run"
    )


@pytest.mark.parametrize(("needs_all", "outcome"), [(False, "passed"), (True, "undecided")])
def test_a_model_that_joins_or_leaves_decides_only_if_it_is_asked_for(folder, needs_all, outcome):
    rule = gate_rule("criterion.liked.mean_diff > 2", None)
    with connect(lake_in(folder), read_only=True) as connection:
        found = read_run_comparison(connection, lake_in(folder), "c", "b", rule, needs_all_models=needs_all).gate
    assert (found.outcome, found.is_failed) == (outcome, needs_all)
    verb = " is" if needs_all else ":"
    assert found.sentence.count(f"n{verb} only in b") == found.sentence.count(f"new{verb} only in this run") == 1


@pytest.mark.nightly
def test_the_banner_is_that_of_the_command(folder):
    banner = comparison_of(folder, "c").banner
    assert banner is not None and banner == compare_runs(lake_in(folder), "b", "c").banner


# -------- refusals before any request
def refused(folder: Path, *models: str, **words: Any) -> str:
    """Error of a refused run of these models, which leaves no run."""
    before = rows_of(folder, "select run_id from runs")
    with pytest.raises(InputError) as caught:
        publish(write_outputs(folder, "d", 3, *models), write_rubric(folder), **words)
    assert rows_of(folder, "select run_id from runs") == before
    return str(caught.value)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"baseline": "nope"}, "--baseline: found no 'nope' in "),
        *matrix(
            [
                ({"baseline": ""}, "--baseline: found an empty text"),
                ({"baseline": "c", "run_id": "c"}, "--baseline: found c, which --run-id names too"),
                (
                    {"fail_if": "p < 1"},
                    "--fail-if: found no --baseline, expected a run to check the rule against, or latest",
                ),
                (
                    {"baseline": "a", "fail_if": "mean < 1"},
                    "--fail-if: at character 1: found 'mean', expected 'mean_b'",
                ),
                (
                    {"baseline": "latest", "fail_if": "criterion.brif.p < 1"},
                    "found the criterion 'brif', expected 'brief'",
                ),
                ({"baseline": "z", "fail_if": "criterion.terse.p < 1"}, "found the criterion 'terse', expected"),
                ({"baseline": "z", "fail_if": "category.tone.p < 1"}, "found the category 'tone', expected"),
            ]
        ),
        ({"baseline": "z"}, "--baseline: found the models z and m, n, expected one each or a common one"),
    ],
)
def test_an_impossible_comparison_is_refused(folder, words, expected):
    assert expected in refused(folder, "m", "n", **words)


@pytest.mark.nightly
def test_an_unfinished_baseline_is_refused(tmp_path):
    write_scores(make_lake(tmp_path), "a", read_rubric(str(write_rubric(tmp_path))), [output("m")])
    with connect(lake_in(tmp_path)) as connection:
        connection.execute("update runs set status = 'failed'")
    assert refused(tmp_path, "m", baseline="a") == "--baseline: a is failed, expected a published run"


def test_a_baseline_without_a_lake_is_refused(tmp_path):
    request = EvaluationRequest(str(write_outputs(tmp_path, "a", 3, "m")), str(write_rubric(tmp_path)), baseline="a")
    with pytest.raises(NoLakeThere):
        check_request(replace(request, lake=f"sqlite:{tmp_path}/lake/catalog.sqlite"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"baseline": "a"}, "--baseline: found 'a', but b is published without it"),
        ({"baseline": "latest", "fail_if": "p < 0"}, "--fail-if: found 'p < 0', but b is published without it"),
    ],
)
def test_a_published_run_is_not_compared_again(folder, words, expected):
    write_ratings(folder, 3, "disliked")
    words |= {"run_id": "b", "ratings": str(folder / "ratings.jsonl")}
    with pytest.raises(InputError, match=expected):
        publish(folder / "b.jsonl", write_rubric(folder), **words)


@pytest.mark.nightly
def test_the_same_command_again_gives_the_same_outcome(folder):
    again = publish(folder / "c.jsonl", write_rubric(folder, version="2.0.0", most=6), run_id="c", baseline="b")
    assert again.comparison == comparison_of(folder, "c")


def test_an_interrupted_run_can_resume_with_another_baseline(folder):
    outputs, rubric = write_outputs(folder, "d", 3, "m"), write_rubric(folder)
    found = []
    for baseline in (None, "latest", "a"):
        lake = f"sqlite:{folder}/lake/catalog.sqlite"
        with opened_run(EvaluationRequest(str(outputs), str(rubric), lake=lake, baseline=baseline), NOW) as run:
            found.append(run.run_id)
    assert len(set(found)) == 1


# -------- report and terminal
@pytest.mark.nightly
def test_the_report_shows_regressions_first(folder, tmp_path):
    summary = summarise(lake_in(folder), "b")
    page = write_report(lake_in(folder), summary, tmp_path / "b.html").read_text(encoding="utf-8")
    section = page[page.index("A is the baseline, run a, and B is this run.") :]
    assert section.index(">overall<") < section.index(">brief<") < section.index(">terse<") < section.index(">full<")


def test_the_json_names_the_baseline_and_the_regressions(folder):
    found = summarise(lake_in(folder), "b").as_json()["comparison"]
    assert (found["baseline_run_id"], found["banner"], found["gate"]["is_failed"]) == ("a", None, True)
    assert [row["scope"] for row in found["rows"][:2]] == ["overall", "category"]
    assert {"model_a": "m", "model_b": "m", "scope": "criterion", "id": "brief"} in found["regressions"]


def test_the_terminal_shows_regressions_first(folder, capsys):
    show_run_comparison(comparison_of(folder, "b"))
    shown = capsys.readouterr().out
    assert (
        shown.index("m: b (B) compared with a (A)")
        < shown.index("p adjusted")  # the verdict's sentences have p itself
        < shown.index("overall")
        < shown.index("brief")
        < shown.index("full")
    )


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (gate_rule("p < 0.05", None), "the gate against the baseline fails on p < 0.05 (m: p = 0.001)"),
        (gate_rule(None, "p > 0.05"), "p > 0.05 against the baseline is not shown (m: p = 0.001)"),
        (gate_rule("not_worse_by(0.1)", None), "not_worse_by(0.1) against the baseline is not shown (m: p = 0.001)"),
    ],
)
def test_the_clause_on_a_failed_gate_repeats_the_rule_without_a_double_negation(rule, expected):
    assert GateFinding(rule, is_failed=True, reasons=("m: p = 0.001",)).brief == expected


def test_the_terminal_shows_the_banner_and_a_gate_that_passed(folder, capsys):
    found = comparison_of(folder, "c")
    show_run_comparison(
        replace(found, gate=GateFinding(GateRule("p < 0"), is_failed=False, reasons=(), figures=("m: p = 0.3",)))
    )
    shown = capsys.readouterr().out
    assert found.banner is not None and found.banner in shown
    assert "gate passed: required not (p < 0), found m: p = 0.3" in shown
