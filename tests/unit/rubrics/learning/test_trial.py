"""Trial of drafted criteria: figures by hand, and the rules that drop."""

import numpy as np
import pytest

from gradebook.rubrics.learning.signals import marks_of, signal_of
from gradebook.rubrics.learning.trial import (
    Figures,
    Tried,
    drop_reason,
    find_repeats,
    measure_trial,
    separates,
    weights_of,
)
from tests.support.law_over import law_over

NAN = float("nan")


def tried(bad: list[float], good: list[float], again: list[float] | None = None) -> Tried:
    scores = np.array([*bad, *good])
    repeated = np.array(again) if again else np.full(scores.size, NAN)
    return Tried(scores, repeated, np.arange(scores.size) < len(bad), np.arange(scores.size))


def test_figures_of_a_criterion_that_finds_half_of_the_bad_outputs():
    figures = measure_trial(tried([0.0, 1.0] * 10, [1.0] * 20))
    assert (figures.bad_mean, figures.good_mean, figures.difference) == (0.5, 1.0, 0.5)
    # Welch: sd 0.513 of 20, so 0.115 of the mean; 2.09 of it with 19 degrees of freedom is 0.24. The interval is wider.
    assert figures.low is not None and 0.2 < figures.low < 0.5 - 0.24 and drop_reason(figures) is None


@law_over(
    ("scores", "reason"),
    [
        (tried([1.0] * 12, [1.0] * 12), "does not vary: the same level on all 24 outputs"),
        (tried([1.0, 0.0], [0.0, 0.0]), "does not separate: good 0.00 (2), bad 0.50 (2), difference -0.50"),
        (tried([0.0] + [1.0] * 14, [1.0] * 15), "not shown to separate"),
        (tried([NAN] * 3 + [0.0], [1.0] * 4), "no verdict on 3 of 8 outputs"),
        (tried([0.0] * 2, [1.0] * 2, [1.0, 0.0, 1.0, 1.0]), "the same level twice on 3 of 4 outputs, expected 80%"),
        (tried([], [1.0, 0.0]), "does not separate"),
        (tried([0.0] + [1.0] * 13, [1.0] * 14), None),  # too few for an interval to decide
    ],
)
def test_a_criterion_is_dropped_for_its_reason(scores: Tried, reason: str | None):
    found = drop_reason(measure_trial(scores))
    assert found is None if reason is None else found is not None and reason in found


def test_a_gate_may_fail_few_outputs_but_a_judge_has_to_have_failed_one():
    rare, never = tried([0.0] + [1.0] * 11, [1.0] * 12), tried([1.0] * 12, [1.0] * 12)
    asked = tried([1.0] * 2, [1.0] * 2, [1.0] * 4)
    assert [drop_reason(measure_trial(one), is_gate=True) is None for one in (rare, never, asked)] == [
        True,
        True,
        False,
    ]


def test_of_two_criteria_with_equal_scores_the_check_is_kept():
    judged, checked = tried([0.0, 0.0, 1.0], [1.0] * 3, [0.0, 0.0, 1.0] + [1.0] * 3), tried([0.0, 0.0, 1.0], [1.0] * 3)
    other = tried([1.0, 1.0, 0.0], [1.0] * 3)
    all_tried = {"judged": judged, "checked": checked, "other": other}
    figures = {name: measure_trial(one) for name, one in all_tried.items()}
    assert find_repeats(all_tried, figures) == {"judged": ("checked", pytest.approx(1.0))}


def test_weights_differ_only_where_the_intervals_of_the_differences_do():
    def of(difference: float, low: float | None, high: float | None) -> Figures:
        return Figures(40, 40, 2, 20, 20, 0, 0, 1.0, 1.0 - difference, difference, low, high)

    assert weights_of({"a": of(0.9, 0.7, 1.0), "b": of(0.2, 0.05, 0.4)}) == {"a": 0.9, "b": 0.2}
    assert weights_of({"a": of(0.9, 0.3, 1.0), "b": of(0.2, 0.05, 0.4)}) is None
    assert weights_of({"a": of(0.9, 0.7, 1.0), "b": of(0.2, None, None)}) is None
    assert weights_of({"a": of(0.9, 0.7, 1.0)}) is None and weights_of({}) is None


@law_over(
    ("scores", "cited", "outcome"),
    [
        ([0.0, 0.0, 1.0, 1.0], [True, True, False, False], (2, 0, True)),
        ([1.0, 0.0, 1.0, 1.0], [True, True, False, False], (1, 0, True)),
        ([1.0, 1.0, 1.0, 1.0], [True, True, False, False], (0, 0, False)),
        ([0.0, 0.0, 0.0, 1.0], [True, True, False, False], (2, 1, False)),
        ([NAN, NAN, 1.0], [True, True, False], (0, 0, False)),
        ([], [], (0, 0, False)),
    ],
)
def test_a_check_has_to_find_what_it_was_proposed_for(
    scores: list[float], cited: list[bool], outcome: tuple[int, int, bool]
):
    assert separates(scores, cited) == outcome


def test_signals_are_read_as_bad_good_or_neither():
    words = ["down", "Thumbs Up", True, False, "meh", None, "-1", [1]]
    assert [signal_of(word) for word in words] == [True, False, False, True, None, None, -1.0, None]
    assert marks_of([1.0, 2.0, 3.0, 4.0, 5.0, None, True, NAN, float("inf")]) == [
        *(True, True, None, False, False),
        *(None, True, None, None),
    ]
    assert marks_of([3.0, 3.0]) == [None, None] and marks_of([0.2], 0.0, 1.0) == [True]


def kept_rate(rng: np.random.Generator, fault_rate: float, good_rate: float, n: int = 25) -> float:
    """Share of 200 trials of n bad and n good outputs that keep a criterion, by the share of each that it fails."""
    is_kept = []
    for _ in range(200):
        bad, good = ((rng.random(n) >= rate).astype(float).tolist() for rate in (fault_rate, good_rate))
        is_kept.append(drop_reason(measure_trial(tried(bad, good))) is None)
    return float(np.mean(is_kept))


@pytest.mark.nightly
def test_a_criterion_that_has_nothing_to_do_with_the_marks_is_kept_in_at_most_one_of_20_trials():
    rng = np.random.default_rng(3)
    assert max(kept_rate(rng, rate, rate) for rate in (0.1, 0.3, 0.5)) <= 0.05
    assert kept_rate(rng, 0.4, 0.0) > 0.9  # 0.99 of 200
