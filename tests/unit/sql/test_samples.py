"""Figures of cases with several samples: pass@k, pass^k and the best of k, beside all draws counted out."""

from dataclasses import astuple
from itertools import combinations
from statistics import mean

import numpy as np
import pytest

from gradebook.rubrics.statistics.means import score_interval
from tests.support.nightly import matrix

TONE = {"tone": {}}
FIGURES = "sample_k, pass_at_k, pass_hat_k, best_of_k"


def found(build, cases, threshold=0.5):
    """The figures of a run; cases: the scores of each case's samples."""
    placed = {(case, sample): score for case, scores in enumerate(cases) for sample, score in enumerate(scores)}
    outputs = {f"o{case}-{sample}": {"case_id": f"c{case}", "sample_index": sample} for case, sample in placed}
    scores = {f"o{case}-{sample}": {"tone": score} for (case, sample), score in placed.items()}
    run = build(TONE, scores, outputs=outputs, pass_threshold=threshold)
    return run.execute(f"select {FIGURES} from run_scores").fetchone()


@pytest.mark.parametrize("seed", [0, *matrix(range(1, 5))])
def test_the_figures_are_means_over_all_draws(build, seed):
    rng = np.random.default_rng(seed)
    cases = [rng.choice([0.0, 0.25, 0.5, 1.0], size=rng.integers(2, 7)).tolist() for _ in range(4)]
    k = min(map(len, cases))
    draws = [list(combinations(case, k)) for case in cases]
    expected = (
        k,
        mean(mean(max(draw) >= 0.5 for draw in of_case) for of_case in draws),
        mean(mean(min(draw) >= 0.5 for draw in of_case) for of_case in draws),
        mean(mean(max(draw) for draw in of_case) for of_case in draws),
    )
    assert found(build, cases) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("cases", "threshold", "expected"),
    [
        ([[1.0, 0.0], [1.0]], 0.5, (None, None, None, None)),  # one case has one sample
        *matrix(
            [
                ([[1.0, 0.0, None]], 0.5, (2, 1.0, 0.0, 1.0)),  # a missing score is no sample
                ([[0.25, 0.5]], None, (2, None, None, 0.5)),  # nothing is required
            ]
        ),
        ([[0.0] * 3, [1.0] * 3], 0.5, (3, 0.5, 0.5, 0.5)),
    ],
)
def test_what_counts_as_a_sample(build, cases, threshold, expected):
    assert found(build, cases, threshold) == expected


def ends(build, cases, clusters=None):
    placed = {(case, sample): score for case, scores in enumerate(cases) for sample, score in enumerate(scores)}
    outputs = {
        f"o{case}-{sample}": {"case_id": f"c{case}", "sample_index": sample}
        | ({"cluster": clusters[case]} if clusters else {})
        for case, sample in placed
    }
    scores = {f"o{case}-{sample}": {"tone": score} for (case, sample), score in placed.items()}
    run = build(TONE, scores, outputs=outputs, pass_threshold=0.5)
    columns = "pass_at_k_low, pass_at_k_high, pass_hat_k_low, pass_hat_k_high"
    return run.execute(f"select {columns} from run_scores").fetchone()


@pytest.mark.nightly
def test_intervals_are_those_of_a_mean_over_cases(build):
    rng = np.random.default_rng(3)
    cases = [rng.choice([0.0, 1.0], size=3).tolist() for _ in range(40)]
    at, hat = [float(max(case)) for case in cases], [float(min(case)) for case in cases]
    expected = [end for values in (at, hat) for end in astuple(score_interval(values))]
    assert ends(build, cases) == pytest.approx(expected)


def test_cases_of_one_cluster_widen_the_interval(build):
    cases = [[float(case % 2)] * 2 for case in range(40)]
    low, high = ends(build, cases)[:2]
    clustered = ends(build, cases, [f"d{case % 4}" for case in range(40)])
    assert clustered[0] < low < high < clustered[1]
    assert ends(build, cases, ["d"] * 40) == (None,) * 4
