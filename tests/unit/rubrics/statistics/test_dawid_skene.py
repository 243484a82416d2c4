"""Labels settled from several voices, against the example that Dawid and Skene published."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.rater_models import settle_labels
from gradebook.rubrics.text.reasons import reason_words

# Table 1 of Dawid and Skene (1979): 45 patients, rated three times by the first of five anaesthetists, then once each.
PATIENTS = """
1111111 3334334 1122122 2223121 2223222 2223322 1222111 3333433 2222223 2322223 4444444 2223343 1111111 2223212 1211111
1112111 1111111 1111111 2222221 2221322 2222222 2222221 2223222 2212222 1111111 1111111 2322222 1111111 1111111 1121121
1111111 3333233 1111111 2222222 2223232 4334343 2212232 2323233 3333432 1111111 1111111 1212111 2322222 1211111 2222222
"""
OBSERVERS = (0, 0, 0, 1, 2, 3, 4)


def settle(said: list[str], **options):
    labels = np.array([[int(letter) - 1 for letter in each] for each in said])
    units, places = np.indices(labels.shape)
    return settle_labels(np.array(OBSERVERS)[places.ravel()], units.ravel(), labels.ravel(), 4, **options)


def test_the_published_example_is_reproduced():
    found = settle(PATIENTS.split(), prior_count=0, least_units=45)
    assert found.shares == pytest.approx([0.40, 0.42, 0.11, 0.07], abs=0.005)
    first = [[0.89, 0.11, 0, 0], [0.07, 0.88, 0.05, 0], [0, 0.34, 0.66, 0]]
    assert found.confusions[0, :3] == pytest.approx(np.array(first), abs=0.005)
    assert found.posteriors.sum(axis=1) == pytest.approx(np.ones(45))


@pytest.mark.nightly
def test_known_errors_and_labels_are_found_and_a_strange_label_decides_nothing():
    rng = np.random.default_rng(3)
    truth = rng.choice(3, 3_000, p=[0.2, 0.3, 0.5])
    accuracies = np.array([0.9, 0.8, 0.6, 0.35])
    others = (truth + rng.integers(1, 3, (4, 3_000))) % 3
    said = np.where(rng.random((4, 3_000)) < accuracies[:, None], truth, others)
    voices, units = np.indices(said.shape)
    found = settle_labels(voices.ravel(), units.ravel(), said.ravel(), 3)
    assert found.accuracies == pytest.approx(accuracies, abs=0.05)
    settled = found.posteriors.argmax(axis=1)
    assert (settled == truth).mean() > 0.9
    assert found.posteriors.max(axis=1).mean() == pytest.approx((settled == truth).mean(), abs=0.01)
    never = np.where(said == 2, 1, said)  # a label that nobody gives has a share, but makes nothing NaN
    assert np.isfinite(settle_labels(voices.ravel(), units.ravel(), never.ravel(), 3).posteriors).all()


def test_too_little_is_no_estimate():
    assert reason_words(settle(PATIENTS.split()).reason) == "found 45 outputs with two labels or more, expected 300"
    two, units = np.repeat([0, 1], 100), np.tile(np.arange(100), 2)
    assert (
        reason_words(settle_labels(two, units, np.zeros(200, np.int64), 2).reason)
        == "found 2 raters and judges, expected 3"
    )
    nothing = np.empty(0, np.int64)
    assert reason_words(settle_labels(nothing, nothing, nothing, 2).reason) == "found 0 raters and judges, expected 3"


def test_sources_that_err_so_often_that_a_majority_is_better_settle_nothing():
    rng = np.random.default_rng(4)
    truth = rng.integers(0, 2, 400)
    sources, units = np.indices((3, 400))

    def settle_at(accuracy):
        said = np.where(rng.random((3, 400)) < accuracy, truth, 1 - truth)
        return settle_labels(sources.ravel(), units.ravel(), said.ravel(), 2)

    assert settle_at(0.9).reason is None
    found = settle_at(0.65)  # a majority of three is right in 72%
    assert found.posteriors.size == 0
    assert "by their own estimate, expected 90%" in reason_words(found.reason)
