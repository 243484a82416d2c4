"""A mean against its threshold, from what is known of the missing scores."""

from gradebook.tasks.published.requirements import _unmet_mean
from tests.support.law_over import law_over


@law_over(
    ("mean", "mean_low", "threshold", "unmet"),
    [
        (0.8, None, 0.7, []),
        (0.8, 0.7, 0.7, []),
        (0.6, 0.6, 0.7, ["the mean is 0.600 (needs 0.7)"]),
        (0.8, 0.4, 0.7, ["only 1 of 2 outputs are scored, so the mean could be below 0.7"]),
        (None, 0.9, 0.7, []),  # no output has a score, and each has at least 0.9 of it
        (None, 0.6, 0.7, ["no output has a score"]),
        (None, None, 0.7, ["no output has a score"]),
        (None, 0.9, 0.0, ["no output has a score"]),  # which is all that a threshold of 0 asks for
    ],
)
def test_a_mean_is_met_if_it_is_for_any_missing_scores(mean, mean_low, threshold, unmet):
    row = {"model": "m", "checkpoint": None, "mean": mean, "n": 1, "output_count": 2}
    assert [each.brief for each in _unmet_mean(row, "mean", threshold, mean_low)] == unmet
