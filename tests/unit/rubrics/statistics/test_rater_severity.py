"""rubrics/statistics/rater_models: the least squares of a two-way model, and means freed of severity."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.rater_models import SeverityFit


def test_severities_are_the_least_squares_of_a_regression_on_dummies():
    rng = np.random.default_rng(1)
    scores = rng.random((4, 12))
    scores[rng.random((4, 12)) < 0.4] = np.nan
    scores[0, np.isnan(scores).all(axis=0)] = 0.5
    raters, units = np.nonzero(~np.isnan(scores))
    design = np.zeros((raters.size, 16))
    design[np.arange(raters.size), raters] = design[np.arange(raters.size), 4 + units] = 1.0
    found = np.linalg.lstsq(design, scores[raters, units], rcond=None)[0]
    fit = SeverityFit(scores, np.arange(12))
    assert fit.severities == pytest.approx(found[:4] - found[:4].mean(), abs=1e-9)
    assert fit.mean_of(np.arange(12) < 5).adjusted == pytest.approx(found[4:9].mean() + found[:4].mean(), abs=1e-9)


@pytest.mark.nightly
def test_models_that_a_strict_rater_rated_more_often_are_not_lowered_by_it():
    rng = np.random.default_rng(2)
    held, plain = [], []
    for _ in range(400):
        truth = np.clip(rng.normal(0.6, 0.15, 80), 0, 1)
        scores = truth + np.array([[-0.2], [0.0], [0.1]]) + rng.normal(0, 0.1, (3, 80))
        is_first = np.arange(80) < 40
        is_missing = rng.random((3, 80)) < np.array([[0.1], [0.6], [0.8]])  # of the first model
        is_missing[:, 40:] = rng.random((3, 40)) < np.array([[0.8], [0.3], [0.1]])
        is_missing[1, is_missing.all(axis=0)] = False
        fit = SeverityFit(np.where(is_missing, np.nan, scores), np.arange(80))
        first = fit.mean_of(is_first)
        held.append(first.ci_low <= 0.6 - 0.1 / 3 <= first.ci_high)  # the mean severity is -0.1 / 3
        plain.append(first.plain)
    assert np.mean(held) == pytest.approx(0.95, abs=0.03)
    assert np.mean(plain) < 0.5


def test_raters_without_a_common_output_have_no_severity():
    scores = np.array([[0.5, 0.7, np.nan, np.nan], [np.nan, np.nan, 0.1, 0.2]])
    fit = SeverityFit(scores, np.arange(4))
    assert fit.severities is None
    found = fit.mean_of(np.array([True, True, False, False]))
    assert (found.plain, found.adjusted) == (pytest.approx(0.6), None)
