"""The checks of each stage: a sound run breaks none, and each finds its fault."""

from collections.abc import Iterator
from importlib.resources import files
from typing import get_args

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradebook.rubrics.model.outputs import SHARD_SCHEMA
from gradebook.rubrics.model.verdicts import JUDGMENT_SCHEMA, VERDICT_SCHEMA
from gradebook.tasks.lake.sql import declared_tables
from gradebook.tasks.marts.checks import Stage, TableStage, check_marts, check_rows, checks_of
from gradebook.tasks.marts.models import build_marts
from tests.support.law_over import law_over
from tests.support.nightly import matrix

CRITERIA = {
    "tone": {"weight": 0.6, "threshold": 0.5, "category": "voice"},
    "facts": {"weight": 0.4},
    "safe": {"weight": 0.0, "is_gate": True},
}
SCORES = {"o": {"tone": 0.8, "facts": 0.5, "safe": 1.0, "polite": 1.0}, "p": {"tone": 0.3, "facts": 1.0, "safe": 0.0}}
OWN = {"o": {"polite": {"weight": 0.0, "is_gate": True}}}
OUTPUTS = {"p": {"checkpoint": "s1"}}
JUDGMENTS = ({"output_id": "o", "criterion_id": "tone"}, {"output_id": "p", "criterion_id": "tone"})
OPINIONS = tuple(
    {"output_id": "o", "judge": "j", "replicate": replicate, "level_id": "good", "score": score}
    for replicate, score in enumerate((0.8, 0.7))
)
TIMINGS = ({"stage": "ingest", "row_count": 2}, {"stage": "score", "criterion_id": "tone", "row_count": 2})
AGREEMENT = ({"statistic": "gwet_ac1"}, {"statistic": "pearson", "value": None, "reason": "equal"})
COMPARISON = (
    {"scope": "overall", "part": 0.0, "pass_n": 2, "gained_count": 0, "lost_count": 0},
    {"scope": "criterion", "scope_id": "tone"},
)
# Changes of the marts or sources that break each check.
SPOT = (
    "select 'm' as model, 'tone' as criterion_id, 'k' as slice_key, 0.5 as mean, 0.5 as rest_mean, ['o'] as example_ids"
)
AUDITED = "select 'm' as model, 'tone' as criterion_id, 9 as n, 0.5 as mean, 0.5 as corrected_mean"
BREAKS = {
    "agreement_grain": "insert into agreement from agreement",
    "agreement_in_range": "update agreement set value = 'nan'",
    "audited_scores_grain": f"insert into audited_scores by name {AUDITED} union all {AUDITED}",
    "audited_scores_in_range": f"insert into audited_scores by name {AUDITED.replace('0.5', '1.5')}",
    "case_criteria_grain": "insert into source_case_criteria from source_case_criteria",
    "case_criteria_have_outputs": "update source_case_criteria set output_id = 'elsewhere'",
    "case_criteria_have_own_ids": "update source_case_criteria set criterion_id = 'tone'",
    "category_contributions_add_up": "update category_scores set contribution = contribution + 0.1",
    "category_scores_grain": "insert into category_scores from category_scores",
    "category_scores_in_order": "update category_scores set p05 = 0.9, p95 = 0.8",
    "category_scores_in_range": "update category_scores set pass_rate = 1.1",
    "costs_reconcile": "update stage_costs set cost_usd = cost_usd + 1",
    "criteria_are_scored": "update criterion_scores set n = 0",
    "criterion_contributions_add_up": "update criterion_scores set contribution = contribution + 0.1",
    "criterion_scores_grain": "insert into criterion_scores from criterion_scores",
    "criterion_scores_in_range": "update criterion_scores set mean = 'nan'",
    "criterion_scores_not_null": "update criterion_scores set model = null",
    "judge_noise_grain": "insert into judge_noise from judge_noise",
    "judge_noise_in_range": "update judge_noise set judge_variance = 'nan'",
    "judgments_have_outputs": "update source_judgments set output_id = 'elsewhere'",
    "opinion_scores_fit": "update source_opinions set score = null",
    "opinions_grain": "insert into source_opinions from source_opinions",
    "opinions_have_verdicts": "update source_opinions set criterion_id = 'elsewhere'",
    "output_scores_grain": "insert into output_scores from output_scores",
    "output_scores_not_null": "update output_scores set output_id = null",
    "output_scores_in_bounds": "update output_scores set score = 1.1",
    "outputs_reconcile": "delete from output_scores where output_id = 'o'",
    "run_comparisons_grain": "insert into run_comparisons from run_comparisons",
    "run_comparisons_in_range": "update run_comparisons set mean_diff = 'nan'",
    "run_comparisons_parts_add_up": "update run_comparisons set part = 0.25",
    "run_scores_grain": "insert into run_scores from run_scores",
    "run_scores_in_order": "update run_scores set p05 = 0.9, p95 = 0.8",
    "run_scores_in_range": "update run_scores set mean = -0.1",
    "run_scores_not_null": "update run_scores set model = null",
    "score_distribution_grain": "insert into score_distribution from score_distribution",
    "score_distribution_is_complete": "delete from score_distribution",
    "stage_costs_grain": "insert into stage_costs from stage_costs",
    "verdicts_have_criteria": "update source_verdicts set criterion_id = 'elsewhere'",
    "verdicts_have_outputs": "update source_verdicts set output_id = 'elsewhere'",
    "verdicts_reconcile": "update output_scores set unscored_count = 1",
    "weak_spots_fit": f"insert into weak_spots by name {SPOT}".replace("['o']", "[]"),
    "weak_spots_grain": f"insert into weak_spots by name {SPOT} union all {SPOT}",
    "weak_spots_in_range": f"insert into weak_spots by name {SPOT.replace('0.5', '1.5')}",
}
MARTS = {check.name: check for check in checks_of("marts")}
OUTPUT = {"output_id": "o", "case_id": "c", "model": "m", "sample_index": 0, "output": "text"}
VERDICT = {"run_id": "r", "criterion_id": "c", "method": "check", "level_id": "pass", "is_replayed": False}
SCORED = VERDICT | {"output_id": "a", "status": "scored", "score": 1.0}
JUDGMENT = {"judgment_id": "j", "request_key": "k", "criterion_id": "c", "status": "scored", "cost_usd": 0.1}
ROWS: dict[TableStage, tuple[pa.Schema, list[dict]]] = {
    "outputs": (SHARD_SCHEMA, [OUTPUT, OUTPUT | {"output_id": "p", "sample_index": 1}]),
    "verdicts": (VERDICT_SCHEMA, [SCORED, VERDICT | {"output_id": "b", "status": "unscored", "reason": "not_rated"}]),
    "judgments": (JUDGMENT_SCHEMA, [JUDGMENT, JUDGMENT | {"judgment_id": "i", "completion_tokens": 3}]),
}
# A row beside the sound ones that breaks a check, and one of the rows that the check finds. None: no rows at all.
ROW_BREAKS: dict[TableStage, dict[str, tuple[dict | None, dict]]] = {
    "outputs": {
        "few_outputs_are_empty": (OUTPUT | {"output_id": "q", "output": "", "sample_index": 2}, {"output_id": "q"}),
        "outputs_exist": (None, {"row_count": 0}),
        "outputs_grain": (OUTPUT | {"sample_index": 2}, {"output_id": "o", "row_count": 2}),
        "outputs_in_range": (OUTPUT | {"output_id": "q", "sample_index": -1}, {"sample_index": -1}),
        "outputs_not_null": (OUTPUT | {"output_id": "q", "sample_index": 2, "model": None}, {"model": "NULL"}),
        "samples_are_distinct": (OUTPUT | {"output_id": "q"}, {"case_id": "c", "row_count": 2}),
    },
    "verdicts": {
        "unscored_verdicts_have_reasons": (VERDICT | {"output_id": "x", "status": "unscored"}, {"output_id": "x"}),
        "verdict_status_fits_score": (VERDICT | {"output_id": "x", "status": "odd", "score": 1.0}, {"status": "odd"}),
        "verdicts_grain": (SCORED, {"output_id": "a", "criterion_id": "c", "row_count": 2}),
        "verdicts_in_range": (SCORED | {"output_id": "x", "score": 1.5}, {"score": 1.5}),
        "verdicts_not_null": (SCORED | {"output_id": "x", "criterion_id": None}, {"criterion_id": "NULL"}),
    },
    "judgments": {
        "costs_are_known": (JUDGMENT | {"judgment_id": "x", "cost_usd": None}, {"judgment_count": 1}),
        "judgments_grain": (JUDGMENT, {"judgment_id": "j", "row_count": 2}),
        "judgments_in_range": (JUDGMENT | {"judgment_id": "x", "cost_usd": float("nan")}, {"cost_usd": "nan"}),
        "judgments_not_null": (JUDGMENT | {"judgment_id": "x", "request_key": None}, {"request_key": "NULL"}),
        "most_judgments_are_scored": (JUDGMENT | {"judgment_id": "x", "status": "error"}, {"judgment_id": "x"}),
    },
}


def table_of(stage: TableStage, *others: dict, is_empty: bool = False) -> pa.Table:
    schema, rows = ROWS[stage]
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    return pa.Table.from_pylist([] if is_empty else [*rows, *others], schema=nullable)


def broken(connection):
    return {finding.name: finding for finding in check_marts(connection) if finding.broken_count}


@pytest.fixture(scope="module")
def shared_marts(load) -> Iterator[duckdb.DuckDBPyConnection]:
    """Marts of a run without faults, shared by the module."""
    with duckdb.connect(config={"threads": 1}) as connection:
        sources = {"outputs": OUTPUTS, "judgments": JUDGMENTS, "timings": TIMINGS, "own": OWN, "opinions": OPINIONS}
        sources |= {"agreement": AGREEMENT, "comparison": COMPARISON}
        load(connection, CRITERIA, SCORES, **sources, pass_threshold=0.6)
        build_marts(connection)
        yield connection


@pytest.fixture
def sound(shared_marts) -> Iterator[duckdb.DuckDBPyConnection]:
    """Marts of a run without faults; changes by a test are rolled back."""
    shared_marts.execute("begin")
    yield shared_marts
    shared_marts.execute("rollback")


def test_every_check_has_a_case_that_breaks_it():
    cases = {"marts": set(BREAKS)} | {stage: set(ROW_BREAKS[stage]) for stage in get_args(TableStage)}
    stages: tuple[Stage, ...] = (*get_args(TableStage), "marts")
    assert {stage: {check.name for check in checks_of(stage)} for stage in stages} == cases
    folders = {entry.name for entry in files("gradebook.sql").joinpath("checks").iterdir()}
    assert folders == set(stages)


@pytest.mark.parametrize("stage", ROWS)
def test_sound_rows_of_a_stage_break_no_check(stage, tmp_path):
    pq.write_table(table_of(stage), tmp_path / "rows.parquet")
    found = check_rows(stage, tmp_path / "rows.parquet")
    assert [finding.broken_count for finding in found] == [0] * len(ROW_BREAKS[stage])


@law_over(("stage", "name"), [(stage, name) for stage, cases in ROW_BREAKS.items() for name in cases])
def test_the_check_of_a_stage_finds_its_fault_alone(stage, name):
    row, example = ROW_BREAKS[stage][name]
    rows = table_of(stage, is_empty=True) if row is None else table_of(stage, row)
    (finding,) = (finding for finding in check_rows(stage, rows) if finding.broken_count)
    assert (finding.name, finding.broken_count) == (name, 1)
    assert all(f"'{column}': {value}" in finding.example for column, value in example.items())


def test_outputs_without_texts_are_checked_on_what_they_have():
    rows = table_of("outputs", OUTPUT | {"output_id": "q", "model": None, "sample_index": 2}).drop_columns(["output"])
    found = {finding.name: finding.broken_count for finding in check_rows("outputs", rows)}
    assert found.keys() == ROW_BREAKS["outputs"].keys() - {"few_outputs_are_empty"}
    assert found["outputs_not_null"] == 1


def test_what_is_declared_of_a_table_is_about_its_columns():
    keys = ("grain", "not_null", "ranges")
    strange = [
        (table, key, name)
        for table, declared in declared_tables().items()
        for key in keys
        for name in getattr(declared, key)
        if name not in declared.columns
    ]
    assert strange == []


def test_a_sound_run_breaks_no_check(sound):
    assert broken(sound) == {}


@pytest.mark.parametrize("name", BREAKS)
def test_the_check_finds_its_fault(sound, name):
    sound.execute(BREAKS[name])
    assert name in broken(sound)


@pytest.mark.parametrize("name", [name for name, check in MARTS.items() if check.needed])
def test_a_check_finds_nothing_without_the_relation_that_it_needs(sound, name):
    sound.execute(f"{BREAKS[name]}; delete from {MARTS[name].needed}")
    assert sound.execute(MARTS[name].sql).fetchall() == []


def test_disagreement_among_people_stops_no_run(sound):
    sound.execute("update agreement set value = 4.0")
    assert broken(sound)["agreement_in_range"].severity == "warning"


@pytest.mark.nightly
def test_a_comparison_with_too_few_pairs_breaks_no_check(build):
    unknown = dict.fromkeys(("mean_a", "mean_b", "mean_diff", "p", "part"))
    none = {"n": 0, "case_count": 0, "moved_case_count": 0, "worse_count": 0, "tied_count": 0} | unknown
    rows = ({"scope": "overall"} | none, {"scope": "category", "scope_id": "voice"} | none)
    assert broken(build({"tone": {}}, {"o": {"tone": 1.0}}, comparison=rows)) == {}


@pytest.mark.parametrize("missing", ["null", *matrix(["skip", "zero"])])
def test_missing_scores_break_no_check_of_severity_error(build, missing):
    scores = {"o": {"tone": None, "facts": 0.5}, "p": {}, "q": {"tone": 1.0, "facts": 1.0, "safe": None}}
    connection = build(CRITERIA, scores, missing=missing)
    assert {name for name, finding in broken(connection).items() if finding.severity == "error"} == set()


@pytest.mark.nightly
def test_penalties_break_no_check(build):
    criteria = {"met": {"weight": 1.0}, "rude": {"weight": -2.0, "category": "voice"}}
    scores = {"o": {"met": 0.0, "rude": 1.0}, "p": {"met": 0.0, "rude": 0.5}}
    assert broken(build(criteria, scores)) == {}


def test_per_case_criteria_with_missing_scores_and_penalties_break_no_check_of_severity_error(build):
    own = {"o": {"kind": {"category": "voice"}, "rude": {"weight": -2.0}}, "p": {"kind": {"weight": 3.0}}}
    scores = {"o": {"tone": 0.5, "facts": 0.0, "safe": 1.0, "kind": 0.0, "rude": 1.0}, "p": {"tone": 1.0, "kind": 1.0}}
    connection = build(CRITERIA, scores, own=own)
    assert {name for name, finding in broken(connection).items() if finding.severity == "error"} == set()


@pytest.mark.parametrize("missing", ["null", *matrix(["skip", "zero"])])
def test_a_tree_of_categories_breaks_no_check_of_severity_error(build, missing):
    categories = ({"id": "voice", "weight": 2}, {"id": "warmth", "parent": "voice"}, {"id": "facts"})
    criteria = {"kind": {"category": "warmth"}, "calm": {"category": "voice"}, "right": {"category": "facts"}}
    scores = {"o": {"kind": 0.5, "calm": 0.1, "right": 1.0}, "p": {"calm": 0.3}}
    outputs = {"p": {"model": "n"}}
    connection = build(criteria, scores, categories=categories, outputs=outputs, missing=missing)
    assert {name for name, finding in broken(connection).items() if finding.severity == "error"} == set()


def test_a_verdict_on_a_per_case_criterion_of_another_output_is_found(build):
    connection = build({"tone": {}}, {"o": {"tone": 1.0, "kind": 1.0}, "p": {"tone": 1.0}}, own={"p": {"kind": {}}})
    assert "verdicts_have_criteria" in broken(connection)


@pytest.mark.nightly
def test_a_rubric_with_only_gates_breaks_no_check(build):
    assert broken(build({"safe": {"weight": 0.0, "is_gate": True}}, {"o": {"safe": 1.0}, "p": {"safe": 0.0}})) == {}


@pytest.mark.nightly
def test_a_run_without_outputs_breaks_no_check(build):
    assert broken(build(CRITERIA, {})) == {}
