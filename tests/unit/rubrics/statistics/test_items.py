"""Discrimination of items against numpy's correlation."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.suite import measure_items


def test_discrimination_is_the_correlation_with_the_other_items():
    rng = np.random.default_rng(3)
    skill = np.linspace(0.0, 1.0, 8)
    scores = np.column_stack([skill, 1.0 - 0.5 * skill, rng.random(8), np.full(8, 0.5)])
    found = measure_items(scores)
    for place in range(3):
        rest = np.delete(scores, place, axis=1).sum(axis=1)
        assert found.discrimination[place] == pytest.approx(np.corrcoef(scores[:, place], rest)[0, 1], abs=1e-9)
    assert found.discrimination[1] < 0 and np.isnan(found.discrimination[3])
    assert found.shares.sum() == pytest.approx(1.0, abs=1e-9)
    # Fisher's z of r = 0.5 over 8 models: tanh(0.5493 -+ 1.96 / sqrt(5))
    r = found.discrimination[2]
    assert found.low[2] == pytest.approx(np.tanh(np.arctanh(r) - 1.959963984540054 / 5**0.5), abs=1e-9)


def test_few_models_show_nothing():
    assert measure_items(np.ones((4, 9))) is None
    assert measure_items(np.ones((5, 9))).enough_count == 9


def test_a_discrimination_of_one_has_no_interval_without_width():
    found = measure_items(np.repeat(np.linspace(0.0, 1.0, 8)[:, None], 2, axis=1))
    assert found.discrimination == pytest.approx(1.0)
    assert np.isnan(found.low).all() and np.isnan(found.high).all()
