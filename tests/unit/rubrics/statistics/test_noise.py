"""rubrics/statistics/noise: two sides drawn from replicates, their figures, and how often a rule fires on nothing."""

from math import nan

import numpy as np
import pytest

from gradebook.rubrics.statistics.comparison import PASS_FIGURES, ROW_FIGURES, measure_pairs, measure_passes
from gradebook.rubrics.statistics.noise import (
    UNDRAWN_FIGURES,
    DrawnFigures,
    DrawnOutputs,
    ReplicateScores,
    draw_sides,
    hold_in_draws,
)
from gradebook.rubrics.statistics.rules import CRITERION, OVERALL, parse_rule
from gradebook.rubrics.statistics.significance import adjust_for_many

FIGURES = {OVERALL: (*ROW_FIGURES, *PASS_FIGURES), CRITERION: ROW_FIGURES, "category": ROW_FIGURES}
COUNT = 24
CASES = np.arange(COUNT) // 2  # two outputs of each case


def line(scores: np.ndarray, scope_id: str = "", cases: np.ndarray | None = None, **others: object) -> ReplicateScores:
    places = np.arange(len(scores))
    scope = CRITERION if scope_id else OVERALL
    return ReplicateScores(scope, scope_id, scores, places, places if cases is None else cases, **others)


def outputs_of(*lines: ReplicateScores, passed: np.ndarray | None = None) -> DrawnOutputs:
    first = lines[0]
    passes = line(np.full(first.scores.shape, nan) if passed is None else passed, cases=first.cases)
    return DrawnOutputs(len(first.scores), first.scores.shape[1], lines, passes)


def levels(rng: np.random.Generator, gap_rate: float = 0.1, replicate_count: int = 3) -> np.ndarray:
    found = rng.integers(0, 3, (COUNT, replicate_count)) / 2
    return np.where(rng.random(found.shape) < gap_rate, nan, found)


def fire_rate(text: str, outputs: DrawnOutputs, draw_count: int = 4_000) -> float:
    held = hold_in_draws([parse_rule(text, FIGURES)], outputs, draw_count, np.random.default_rng(0))
    return float(held.is_fired.mean())


# -------- draws
def test_a_and_b_are_two_replicates_of_each_output_each_as_often_as_any():
    of_a, of_b = draw_sides(np.random.default_rng(0), 2_000, 3, 3)
    assert (of_a != of_b).all()
    pairs = np.unique(np.stack([of_a.ravel(), of_b.ravel()]), axis=1, return_counts=True)
    assert pairs[0].T.tolist() == [[0, 1], [0, 2], [1, 0], [1, 2], [2, 0], [2, 1]]
    assert pairs[1] == pytest.approx(1_000, rel=0.15)  # 6,000 / 6


def test_two_outputs_that_flip_differ_by_one_in_a_quarter_of_the_draws():
    # Of each output one reply is 0 and one is 1: B - A is -1, 0, 0 or 1 on average.
    outputs = outputs_of(line(np.array([[0.0, 1.0], [1.0, 0.0]])))
    assert fire_rate("mean_diff < -0.5", outputs) == pytest.approx(1 / 4, abs=0.03)
    assert fire_rate("mean_diff = 0", outputs) == pytest.approx(1 / 2, abs=0.03)


def test_all_criteria_of_an_output_are_of_one_reply():
    # The same scores on both: they would differ in half of the draws, were they drawn apart.
    scores = np.array([[0.0, 1.0]])
    outputs = outputs_of(line(scores), line(scores, "tone"), line(scores, "facts"))
    same = "criterion.tone.mean_diff > 0 and criterion.facts.mean_diff > 0"
    assert fire_rate(same, outputs) == pytest.approx(1 / 2, abs=0.03)


def test_draws_are_the_same_for_the_same_seed_and_for_all_rules():
    outputs = outputs_of(line(levels(np.random.default_rng(1))))
    rules = [parse_rule(text, FIGURES) for text in ("mean_diff < 0", "mean_diff >= 0")]
    first, again = (hold_in_draws(rules, outputs, 50, np.random.default_rng(2)) for _ in range(2))
    assert (first.held == again.held).all()
    assert (first.held.sum(axis=0) == 1).all()


def test_more_draws_than_are_held_at_once_are_all_counted(monkeypatch):
    monkeypatch.setattr("gradebook.rubrics.statistics.noise.CHUNK_CELLS", 100)
    held = hold_in_draws([], outputs_of(line(levels(np.random.default_rng(1)))), 10, np.random.default_rng(2))
    assert (held.held.shape, held.overall_diffs.shape) == ((0, 10), (10,))


# -------- figures
@pytest.mark.parametrize("cases", [None, CASES], ids=["pairs", "cases"])
def test_the_figures_of_a_draw_are_those_of_a_comparison_of_its_sides(cases):
    found = line(levels(np.random.default_rng(3)), cases=cases)
    of_a, of_b = draw_sides(np.random.default_rng(4), 3, COUNT, 3)
    drawn = DrawnFigures(outputs_of(found), of_a, of_b)
    for draw in range(3):
        pairs = found.scores[np.arange(COUNT), of_a[draw]], found.scores[np.arange(COUNT), of_b[draw]]
        known = ~np.isnan(pairs[0] + pairs[1])
        expected = measure_pairs(*(side[known] for side in pairs), found.cases[known])
        names = [name for name in ROW_FIGURES if name not in (*UNDRAWN_FIGURES, "p_adjusted", "p_holm")]
        values = {name: drawn.figures(OVERALL, "", name)[draw] for name in names}
        assert values == {name: pytest.approx(getattr(expected, name)) for name in names}
        assert drawn.figures(OVERALL, "", "unscored_count")[draw] == (~known).sum()


@pytest.mark.parametrize("cases", [None, CASES], ids=["pairs", "cases"])
def test_the_passes_of_a_draw_are_those_of_a_comparison_of_its_sides(cases):
    passed = np.ceil(levels(np.random.default_rng(5)))
    found = line(passed, cases=cases)
    of_a, of_b = draw_sides(np.random.default_rng(6), 3, COUNT, 3)
    drawn = DrawnFigures(outputs_of(found, passed=passed), of_a, of_b)
    for draw in range(3):
        pairs = passed[np.arange(COUNT), of_a[draw]], passed[np.arange(COUNT), of_b[draw]]
        known = ~np.isnan(pairs[0] + pairs[1])
        expected = measure_passes(*(side[known] for side in pairs), found.cases[known])
        values = {name: drawn.figures(OVERALL, "", name)[draw] for name in PASS_FIGURES}
        assert values == {name: pytest.approx(getattr(expected, name)) for name in PASS_FIGURES}


def test_p_is_adjusted_for_the_lines_beside_it_those_of_rows_among_them():
    rng = np.random.default_rng(7)
    lines = [line(levels(rng), name, is_own=name == "own") for name in ("tone", "facts", "own")]
    drawn = DrawnFigures(outputs_of(*lines), *draw_sides(rng, 5, COUNT, 3))
    names = ("tone", "facts", "own")
    raw, adjusted = (np.stack([drawn.figures(CRITERION, n, p) for n in names]) for p in ("p", "p_adjusted"))
    assert adjusted == pytest.approx(np.stack([adjust_for_many(column) for column in raw.T], axis=1))
    assert drawn.ids(CRITERION) == ["tone", "facts"]


def test_what_nobody_knows_fires():
    assert fire_rate("p < 0.05", outputs_of(line(np.array([[0.0, 1.0]]))), 10) == 1.0  # one pair has no p
    assert fire_rate("pass_rate_b < 0.5", outputs_of(line(np.zeros((3, 2)))), 10) == 1.0
    assert fire_rate("any category (p < 0.05)", outputs_of(line(np.zeros((3, 2)))), 10) == 1.0


# -------- how often
def test_equal_replies_fire_never():
    scores = np.repeat(np.random.default_rng(8).integers(0, 3, (COUNT, 1)) / 2, 2, axis=1)
    outputs = outputs_of(line(scores), line(scores, "tone"))
    for text in ("mean_diff < 0", "p < 0.05", "any criterion (p_adjusted < 0.9)", "worse_rate > 0"):
        assert fire_rate(text, outputs, 100) == 0.0


def test_pure_noise_fires_about_as_often_as_p_allows():
    rng = np.random.default_rng(9)
    outputs = outputs_of(line(rng.integers(0, 3, (300, 2)) / 2))
    assert 0.03 < fire_rate("p < 0.05", outputs) < 0.07
    assert 0.015 < fire_rate("mean_diff < 0 and p < 0.05", outputs) < 0.035


def test_asking_each_of_ten_criteria_at_five_percent_fires_in_four_of_ten():
    # 1 - 0.95 ** 10 = 0.401; adjusted 0.05.
    rng = np.random.default_rng(10)
    outputs = outputs_of(*(line(rng.integers(0, 3, (300, 2)) / 2, f"c{index}") for index in range(10)))
    assert 0.35 < fire_rate("any criterion (p < 0.05)", outputs, 1_000) < 0.45
    assert 0.03 < fire_rate("any criterion (p_adjusted < 0.05)", outputs, 1_000) < 0.07
