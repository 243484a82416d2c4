"""Several opinions made one verdict: the arithmetic, and what silence does to it."""

import math

import numpy as np
import pytest

from gradebook.rubrics.prompts.combine_opinions import (
    NO_MAJORITY,
    Opinions,
    combine_opinions,
    commonest_reason,
    find_unsure,
)
from tests.support.law_over import law_over

LEVEL_SCORES = (0.0, 0.5, 1.0)
SILENT, UNWANTED = -1, -2


def opinions_of(*rows: tuple[int, ...], probabilities: list[list[list[float]]] | None = None) -> Opinions:
    """Opinions by the places of their levels."""
    places = np.array(rows, dtype=np.int64)
    scores = np.array([[LEVEL_SCORES[place] if place >= 0 else math.nan for place in row] for row in rows])
    shares = None if probabilities is None else np.array(probabilities)
    return Opinions(places > UNWANTED, np.maximum(places, -1), scores, shares)


def combine(*rows, aggregate="mean", judges=None):
    """The place and the score of the verdict on each output."""
    given = opinions_of(*rows)
    whose = np.arange(len(rows[0])) if judges is None else np.array(judges)
    combined = combine_opinions(given, whose, aggregate, len(LEVEL_SCORES))
    return list(zip(combined.level_places.tolist(), combined.scores.tolist(), strict=True))


def one_of(*row, **others):
    (verdict,) = combine(row, **others)
    return pytest.approx(verdict, nan_ok=True)


@law_over(
    ("aggregate", "row", "verdict"),
    [
        ("mean", (2, 1, 0), (1, 0.5)),  # (1 + 0.5 + 0) / 3
        ("mean", (2, 2, 0), (2, 2 / 3)),
        ("mean", (2, 0), (0, 0.5)),  # of two levels the lower
        ("median", (2, 1, 0), (1, 0.5)),
        ("median", (2, 2, 0), (2, 1.0)),
        ("median", (2, 0), (0, 0.5)),  # between the two scores, the lower level
        ("majority", (2, 2, 0), (2, 1.0)),
        ("all", (2, 1, 2), (1, 0.5)),
    ],
)
def test_a_panel_is_combined_as_it_says(aggregate, row, verdict):
    assert one_of(*row, aggregate=aggregate) == verdict


def test_without_a_majority_there_is_no_verdict():
    combined = combine_opinions(opinions_of((2, 1, 0)), np.arange(3), "majority", 3)
    assert (combined.level_places[0], combined.is_split[0]) == (-1, True)


def test_half_is_no_majority():
    assert one_of(2, 2, 0, 0, aggregate="majority") == (-1, math.nan)


def test_the_silent_count_against_a_majority():
    # 2 of 4 opinions, though of the 3 that gave a level they are more than half
    assert one_of(2, 2, 0, SILENT, aggregate="majority") == (-1, math.nan)


@pytest.mark.parametrize(("row", "score"), [((2, SILENT), 1.0), ((2, SILENT, SILENT), math.nan), ((SILENT,), math.nan)])
def test_fewer_than_half_give_no_verdict(row, score):
    assert combine(row)[0][1] == pytest.approx(score, nan_ok=True)


def test_what_was_never_wanted_does_not_count():
    assert one_of(2, UNWANTED, UNWANTED) == (2, 1.0)


def test_replicates_of_a_judge_are_one_voice_of_the_panel():
    # judge 0 said 1, 1, 1, judge 1 said 0: (1 + 0) / 2, not 3 / 4
    assert one_of(2, 2, 2, 0, judges=[0, 0, 0, 1]) == (0, 0.5)


def test_replicates_of_one_judge_are_combined_by_their_mean_whatever_the_aggregate():
    assert one_of(2, 0, 0, aggregate="all", judges=[0, 0, 0]) == (0, 1 / 3)


def test_the_speaker_is_the_first_opinion_with_the_level_of_the_verdict():
    combined = combine_opinions(opinions_of((0, 2, 2), (SILENT, SILENT, 0)), np.zeros(3, np.int64), "mean", 3)
    assert combined.speakers.tolist() == [1, -1]


def test_the_shares_are_those_of_the_opinions_that_gave_a_level():
    combined = combine_opinions(opinions_of((0, 2, 2, SILENT)), np.zeros(4, np.int64), "mean", 3)
    assert combined.shares[0].tolist() == pytest.approx([1 / 3, 0, 2 / 3])


def test_no_outputs_give_no_verdicts():
    nothing = Opinions(np.zeros((0, 3), bool), np.zeros((0, 3), np.int64), np.zeros((0, 3)))
    assert len(combine_opinions(nothing, np.arange(3), "median", 3).scores) == 0


def test_equal_to_one_output_after_the_other():
    rng = np.random.default_rng(5)
    places = rng.integers(-2, 3, size=(500, 5))
    whole = combine(*map(tuple, places.tolist()), aggregate="median")
    alone = [combine(tuple(row), aggregate="median")[0] for row in places.tolist()]
    assert np.array(whole) == pytest.approx(np.array(alone), nan_ok=True)


# -------- when another judge is asked
def unsure(*rows, share_below=None, is_disagreement=False, is_unscored=False, probabilities=None):
    given = opinions_of(*rows, probabilities=probabilities)
    flags = {"share_below": share_below, "is_disagreement": is_disagreement, "is_unscored": is_unscored}
    return find_unsure(given, 3, **flags).tolist()


def test_a_judge_that_disagrees_with_itself_is_unsure():
    assert unsure((2, 2), (2, 1), (2, SILENT), is_disagreement=True) == [False, True, False]


def test_a_judge_without_a_level_is_unsure():
    assert unsure((SILENT,), (0,), is_unscored=True) == [True, False]


def test_a_share_of_replicates_below_the_mark_is_unsure():
    assert unsure((2, 2, 1), (2, 2, 2), (SILENT, SILENT, SILENT), share_below=0.8) == [True, False, False]


def test_a_flat_distribution_is_unsure():
    flat, steep = [[0.0, 0.3, 0.7]], [[0.0, 0.1, 0.9]]
    assert unsure((2,), (2,), share_below=0.8, probabilities=[flat, steep]) == [True, False]


# -------- why there is none
def test_the_commonest_reason_is_told_in_its_first_wording():
    assert commonest_reason(["refused", "endpoint_error: 500", None, "endpoint_error: 503"]) == "endpoint_error: 500"


def test_of_equally_common_reasons_the_first_is_told():
    assert commonest_reason(["parse_error", "refused"]) == "parse_error"


def test_where_none_was_silent_a_majority_is_missing():
    assert commonest_reason([None, None]) == NO_MAJORITY
