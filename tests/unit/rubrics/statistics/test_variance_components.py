"""rubrics/statistics/decomposition: published examples, and unbalanced designs of known variances."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.decomposition import Design, variance_components

# Davies and Goldsmith (1972): yield of dyestuff, five samples of each of six batches
DYESTUFF = [
    [1545, 1440, 1440, 1520, 1580], [1540, 1555, 1490, 1560, 1495], [1595, 1550, 1605, 1510, 1560],
    [1445, 1440, 1595, 1465, 1545], [1595, 1630, 1515, 1635, 1625], [1520, 1455, 1450, 1480, 1445],
]  # fmt: skip
# Shrout and Fleiss (1979), table 2: six targets, four judges; ICC(2,1) = .29, ICC(3,1) = .71, ICC(2,4) = .62
TARGETS = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]


def test_dyestuff_has_the_published_components():
    scores = np.array(DYESTUFF, dtype=float)
    found = variance_components(scores.ravel(), {"case": np.repeat(np.arange(6), 5)})
    assert found == pytest.approx({"case": 1764.05, "replicate": 2451.25}, rel=1e-9)


def test_a_crossed_design_has_the_published_generalisability():
    scores = np.array(TARGETS, dtype=float)
    found = variance_components(scores.ravel(), {"case": np.repeat(np.arange(6), 4), "rater": np.tile(np.arange(4), 6)})
    target, rater, rest = found["case"], found["rater"], found["replicate"]
    # mean squares 11.241667, 32.486111 and 1.019444
    means = (4 * target + rest, 6 * rater + rest, rest)
    assert means == pytest.approx((11.2416666667, 32.4861111111, 1.0194444444), rel=1e-9)
    indices = (target / (target + rater + rest), target / (target + rest), target / (target + (rater + rest) / 4))
    assert [round(each, 2) for each in indices] == [0.29, 0.71, 0.62]


def test_facets_that_can_not_be_told_apart_are_left_out():
    codes = np.arange(6).repeat(2)
    assert list(variance_components(np.arange(12.0) % 5, {"case": codes, "sample": codes + 3, "judge": codes * 0})) == [
        "case",
        "replicate",
    ]
    assert variance_components(np.arange(3.0), {"case": np.arange(3)}) == {}


def test_an_unbalanced_nested_design_is_unbiased_and_predicts_the_error_of_the_mean():
    rng = np.random.default_rng(6)
    found, means = [], []
    for _ in range(400):
        samples = rng.integers(1, 5, 60)
        cases = np.repeat(np.arange(60), samples)
        replies = rng.integers(1, 4, cases.size)
        outputs = np.repeat(np.arange(cases.size), replies)
        scores = 0.3 * rng.normal(size=60)[cases][outputs] + 0.2 * rng.normal(size=cases.size)[outputs]
        scores += 0.1 * rng.normal(size=outputs.size)
        found.append([*variance_components(scores, {"case": cases[outputs], "sample": outputs}).values()])
        means.append(rng.normal(size=100) @ np.full(100, 0.01) * 0.3 + rng.normal() * np.sqrt(0.04 / 2 + 0.01 / 6) / 10)
    assert np.mean(found, axis=0) == pytest.approx([0.09, 0.04, 0.01], rel=0.06)
    error = Design(100, 2, 3).standard_error({"case": 0.09, "sample": 0.04, "replicate": 0.01})
    assert error == pytest.approx(np.std(means), rel=0.1)
    assert error == pytest.approx(np.sqrt((0.09 + 0.04 / 2 + 0.01 / 6) / 100))
