"""tasks/comparing/aa_test: comparison of a run's replicates, and how often rules fire on them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.statistics.series import Series
from gradebook.tasks.comparing.aa_test import measure_noise
from gradebook.tasks.comparing.compare import ComparisonOptions, compare_runs
from gradebook.tasks.comparing.gate import GateRule
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect
from tests.support.nightly import matrix
from tests.support.replicated_lake import make_rubric, write_first_replicates, write_replicates
from tests.support.scored_lake import make_lake, write_scores

OUTPUTS = [{"case_id": f"c{place // 2}", "sample_index": place % 2} for place in range(60)]
TONE = make_rubric("tone", {"id": "tone"})
RUBRICS = {
    "weighted": make_rubric(
        "weighted",
        {"id": "tone", "weight": 3, "category": "voice", "threshold": 0.5},
        {"id": "facts", "category": "truth"},
        {"id": "safe", "gate": True, "threshold": 0.5},
        {"id": "length", "category": "voice"},  # a check, without replies
        pass_threshold=0.4,
        require_thresholds=True,
    ),
    "points": make_rubric("points", {"id": "tone", "weight": 2}, {"id": "facts", "weight": -3}, missing="zero"),
    "tree": make_rubric(
        "tree",
        {"id": "tone", "category": "inner", "weight": 3},
        {"id": "facts", "category": "inner"},
        {"id": "safe"},
        categories=[{"id": "inner", "parent": "outer", "weight": 2}, {"id": "outer", "weight": 3}],
        missing="skip",
    ),
}


def replies(rng: np.random.Generator, count: int = 60, replicate_count: int = 2, flip_rate: float = 0.3) -> Any:
    """Levels of 0, 0.5 and 1 with the same noise in each replicate; one reply in twenty has no level."""
    worth = rng.integers(0, 3, (count, 1)) / 2
    strayed = rng.integers(0, 3, (count, replicate_count)) / 2
    found = np.where(rng.random((count, replicate_count)) < flip_rate, strayed, worth)
    return np.where(rng.random(found.shape) < 0.05, np.nan, found)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Lake with a run by the rubric `weighted` with three replicates."""
    lake = make_lake(Path(tmp_path_factory.mktemp("judged")))
    write_replicates(lake, "weighted", RUBRICS["weighted"], *judged("weighted"))
    return lake


def judged(name: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Outputs, and the judge's replies to the criteria of a rubric."""
    names = [criterion.id for criterion in RUBRICS[name].criteria if criterion.id != "length"]
    rng = np.random.default_rng(3)
    checked = {"scores": {"length": 1.0}} if name == "weighted" else {}
    said = {criterion_id: replies(rng, replicate_count=3) for criterion_id in names}
    return [output | checked for output in OUTPUTS], {"judge": said}


@pytest.mark.nightly
@pytest.mark.parametrize("name", RUBRICS)
def test_outputs_judged_twice_equal_a_comparison_of_two_such_runs(tmp_path, name):
    lake, rubric, (outputs, said) = make_lake(tmp_path), RUBRICS[name], judged(name)
    write_replicates(lake, name, rubric, outputs, said)
    write_first_replicates(lake, name, rubric, outputs, said["judge"])
    (found,) = measure_noise(lake, name, draw_count=2).models
    (expected,) = compare_runs(lake, f"{name}-0", f"{name}-1", ComparisonOptions(resample_count=0)).models
    # Wins depend on the judge's noise, which a draw does not measure.
    sides = [
        [replace(row, wins=None) for row in sorted(rows, key=lambda row: row.name)]
        for rows in (found.rows, expected.rows)
    ]
    assert sides[0] == sides[1]


@pytest.mark.nightly
def test_a_rule_on_the_sign_fires_in_about_half_of_the_draws(lake):
    (rule,) = measure_noise(lake, "weighted", [GateRule("mean_diff < 0")], draw_count=400).rules
    assert 0.4 < rule.gate.rate < 0.6
    assert rule.gate.interval.low < rule.gate.rate < rule.gate.interval.high


def test_rules_may_name_every_figure_except_the_bootstrap(lake):
    rules = ["category.voice.p < 0.05", "criterion.length.worse_rate > 0", "pass_diff < 0 and p_mcnemar < 0.05"]
    found = measure_noise(lake, "weighted", [GateRule(rule) for rule in rules], draw_count=50).rules
    assert [rule.gate.unknown_count for rule in found] == [0, 0, 0]
    assert found[1].gate.fired_count == 0  # a check has no noise
    with pytest.raises(InputError, match="found boot_low, expected diff_low, which needs no resampling"):
        measure_noise(lake, "weighted", [GateRule("boot_low > 0")])


def test_a_series_of_looks_has_fewer_false_alarms_than_the_rule_on_each(lake):
    gates = [GateRule("mean_diff < 0 and p < 0.5")]
    (rule,) = measure_noise(lake, "weighted", gates, draw_count=400, series=Series(0.05, "bonferroni", 10)).rules
    assert rule.series.plain_rate == pytest.approx(1 - (1 - rule.gate.rate) ** 10)
    assert rule.series.rate < 0.05 < rule.series.plain_rate


@pytest.mark.nightly
def test_a_rule_on_an_unknown_criterion_is_refused(lake):
    with pytest.raises(InputError, match="found the criterion 'brevity', expected"):
        measure_noise(lake, "weighted", [GateRule("criterion.brevity.p < 0.05")])


# -------- selection of outputs and replies
@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Empty lake for runs of a few outputs."""
    return make_lake(Path(tmp_path_factory.mktemp("few")))


def few(count: int, **others: Any) -> list[dict[str, Any]]:
    return [{"case_id": f"c{place}"} | others for place in range(count)]


PANEL = {"kind": "panel", "members": [{}, {}, {}]}
A, B, C = (np.array(rows) for rows in ([[0, 1], [1, 1]], [[0.5, 1], [0, 0]], [[1, 0], [1, 0]]))


@pytest.mark.parametrize(
    ("aggregate", "means"),
    [
        ("mean", (0.5 * (1.5 / 3 + 2 / 3), 0.5 * (2 / 3 + 1 / 3))),
        *matrix([("median", (0.5 * (0.5 + 1), 0.5 * (1 + 0))), ("all", (0.0, 0.0))]),
    ],
)
def test_a_replicate_of_a_panel_combines_its_members_replicates(empty, aggregate, means):
    said = {name: {"tone": scores} for name, scores in (("a", A), ("b", B), ("c", C))}
    write_replicates(empty, aggregate, TONE, few(2), said, identity=PANEL | {"aggregate": aggregate})
    (overall, _) = measure_noise(empty, aggregate, draw_count=1).models[0].rows
    assert (overall.figures.mean_a, overall.figures.mean_b) == pytest.approx(means)


@pytest.mark.nightly
def test_a_panel_without_a_majority_leaves_the_replicate_unscored(empty):
    # Replicate 0 of the first output: three levels; of the second 1, 0, 1. Replicate 1: 1, 1, 0 and 1, 0, 0.
    said = {name: {"tone": scores} for name, scores in (("a", A), ("b", B), ("c", C))}
    write_replicates(empty, "majority", TONE, few(2), said, identity=PANEL | {"aggregate": "majority"})
    (overall, _) = measure_noise(empty, "majority", draw_count=1).models[0].rows
    assert (overall.figures.n, overall.counts.unscored_count, overall.figures.mean_diff) == (1, 1, -1.0)


@pytest.mark.nightly
def test_outputs_with_one_reply_are_left_out_and_counted(empty):
    said = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])
    write_replicates(empty, "sampled", TONE, few(3), {"judge": {"tone": said}})
    with connect(empty) as connection:
        connection.execute("delete from opinions where run_id = 'sampled' and output_id like '%/2' and replicate = 1")
    found = measure_noise(empty, "sampled", draw_count=1)
    assert (found.replicates.output_count, found.replicates.left_out_count) == (2, 1)
    assert found.models[0].rows[0].figures.n == 2


@pytest.mark.nightly
def test_models_are_drawn_separately_and_the_gate_fires_for_any(empty):
    outputs = [*few(1, model="m"), *few(1, model="n")]
    write_replicates(empty, "models", TONE, outputs, {"judge": {"tone": np.array([[0.0, 1.0], [1.0, 0.0]])}})
    (rule,) = measure_noise(empty, "models", [GateRule("mean_diff < 0")], draw_count=2_000).rules
    # each fires in half of the draws, at least one of both in three quarters
    assert [(name, fires.rate) for name, fires in rule.models] == [
        ("m", pytest.approx(0.5, abs=0.04)),
        ("n", pytest.approx(0.5, abs=0.04)),
    ]
    assert rule.gate.rate == pytest.approx(0.75, abs=0.04)


@pytest.mark.nightly
def test_per_case_criteria_count_in_the_score_and_have_noise_too(empty):
    outputs = few(4, own={"brief": 2.0})
    said = {"tone": np.zeros((4, 2)), "brief": np.array([[0.0, 1.0]] * 4)}
    write_replicates(empty, "own", TONE, outputs, {"judge": said})
    rows = {row.name: row.figures.mean_diff for row in measure_noise(empty, "own", draw_count=1).models[0].rows}
    assert rows == {"overall": pytest.approx(2 / 3), "tone": 0.0, "brief": 1.0}


@pytest.mark.parametrize(
    ("name", "said", "identity", "words"),
    [
        ("none", {"judge": {}}, {"kind": "openai_chat"}, "found one reply of judge to each question"),
        *matrix(
            [
                (
                    "single",
                    {"judge": {"tone": np.ones((2, 1))}},
                    {"kind": "openai_chat"},
                    (
                        "found one reply of judge to each question, expected several: "
                        "write `replicates: 2` into the judge file"
                    ),
                ),
                (
                    "half",
                    {"a": {"tone": np.ones((2, 2))}, "b": {"tone": np.ones((2, 1))}},
                    PANEL | {"aggregate": "mean"},
                    "found one reply of b to each question, .* into the file of each judge of the panel",
                ),
                (
                    "cascade",
                    {"a": {"tone": np.ones((2, 2))}},
                    {"kind": "cascade"},
                    "found a cascade, expected one judge",
                ),
                ("unsaid", {"a": {"tone": np.ones((2, 2))}, "b": {"tone": np.ones((2, 2))}}, None, "its 2 judges"),
            ]
        ),
    ],
)
def test_a_run_without_comparable_replicates_is_refused(empty, name, said, identity, words):
    write_replicates(empty, name, TONE, few(2), said, identity=identity)
    with pytest.raises(InputError, match=words):
        measure_noise(empty, name)


def test_a_run_without_a_judge_is_refused(empty):
    write_scores(empty, "unjudged", TONE, [{"case_id": "c0", "scores": {"tone": 1.0}}])
    with pytest.raises(InputError, match="run unjudged: found no judge, expected one that replied several times"):
        measure_noise(empty, "unjudged")
