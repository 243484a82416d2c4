"""From what a person marked to a level: ids, labels, ranks, scores, and what is no rating."""

import pytest

from gradebook.rubrics.importers.ratings.grading import Ladder, decide_meaning, missing_values, number_of
from gradebook.rubrics.importers.ratings.sheets import Misfit
from gradebook.rubrics.model.levels import Level, Scale
from tests.support.law_over import law_over

TONE = Ladder(
    "tone",
    (
        Level(id="bad", score=0),
        Level(id="okay", score=0.5, label="Just right"),
        Level(id="good", score=1, label="Very kind"),
    ),
)
POINTS = Ladder("points", Scale(min=1, max=5).levels)
PASSED = Ladder("passed", (Level(id="fail", score=0), Level(id="pass", score=1)))
NONE = frozenset()


def grade(ladder, value, meaning="id", kind="value", missing=NONE):
    return ladder.grade(value, kind, meaning, missing)


@pytest.mark.parametrize("text", ["good", "GOOD", " good ", "Very kind", "very kind"])
def test_a_level_is_known_by_its_id_or_label_in_any_case(text):
    assert grade(TONE, text) == ("good", 1)


def test_a_level_without_a_label_is_known_by_its_description():
    options = (Level(id="l1", score=0, description="1 - Low"), Level(id="l2", score=1, label="hi", description="High"))
    assert grade(Ladder("mood", options), "1 - low") == ("l1", 0)
    with pytest.raises(Misfit):
        grade(Ladder("mood", options), "High")


@pytest.mark.parametrize("value", [4, 4.0, "4", "4.0", " 4 "])
def test_where_ids_are_numbers_a_number_is_the_level_of_that_id(value):
    assert grade(POINTS, value) == ("4", 0.75)  # (4 - 1) / (5 - 1)


@law_over("value", [0, 6, 3.5, "0.75", 10**200, "1e3", "-1"])
def test_where_ids_are_numbers_any_other_number_is_refused(value):
    with pytest.raises(Misfit, match="points: found .*, expected one of 1, 2, 3, 4, 5"):
        grade(POINTS, value)


@pytest.mark.parametrize(("rank", "level"), [(1, "bad"), (2, "okay"), ("3.0", "good")])
def test_a_rank_counts_from_1_for_the_worst_level(rank, level):
    assert grade(TONE, rank, "rank")[0] == level


@pytest.mark.parametrize("rank", [0, 4, 1.5])
def test_a_rank_beyond_the_levels_is_refused(rank):
    with pytest.raises(Misfit, match="expected a rank of 1 to 3"):
        grade(TONE, rank, "rank")


@pytest.mark.parametrize(("score", "found"), [(0.5, ("okay", 0.5)), (0.4, (None, 0.4)), ("1", ("good", 1))])
def test_a_score_is_the_level_of_that_score_or_stands_alone(score, found):
    assert grade(TONE, score, "score") == found


def test_a_score_above_1_is_refused():
    with pytest.raises(Misfit, match="tone: found 1.2, expected a score of 0 to 1"):
        grade(TONE, 1.2, "score")


@pytest.mark.parametrize(("value", "found"), [(True, ("pass", 1)), (False, ("fail", 0))])
def test_true_and_false_are_the_best_and_the_worst_of_two_levels(value, found):
    assert grade(PASSED, value) == found


def test_true_is_no_level_of_three():
    with pytest.raises(Misfit, match="tone: found true, expected one of bad, okay, good"):
        grade(TONE, True)


@law_over("value", [None, "", "N/A", "na", "NaN", "null", "Not applicable", "not_applicable"])
def test_what_does_not_apply_is_missing_and_no_zero(value):
    assert grade(TONE, value, "score") is None


def test_a_level_named_na_is_a_level():
    assert grade(Ladder("region", (Level(id="eu", score=0), Level(id="na", score=1))), "na") == ("na", 1)


@pytest.mark.parametrize("value", [0, "0", "0.0", 0.0])
def test_a_value_that_was_declared_missing_is_missing_however_it_is_written(value):
    assert grade(PASSED, value, "score", missing=missing_values(["0"])) is None


@pytest.mark.parametrize("value", [["good"], {"rating": 1}, "1" * 400, "great", float("inf")])
def test_what_is_no_level_is_refused_with_the_levels(value):
    with pytest.raises(Misfit, match="tone: found .*, expected one of bad, okay, good"):
        grade(TONE, value)


def test_a_label_that_two_levels_have_is_none_of_them():
    twins = Ladder("twins", (Level(id="a", score=0, label="Same"), Level(id="b", score=1, label="same")))
    with pytest.raises(Misfit):
        grade(twins, "SAME")


# -------- what the numbers of a file mean
@pytest.mark.parametrize(
    ("numbers", "meaning"), [([1, 2, 5], "rank"), ([0, 1], "score"), ([0.5, 1], "score"), ([2], "rank")]
)
def test_numbers_above_1_are_ranks_and_zeros_or_fractions_are_scores(numbers, meaning):
    assert decide_meaning("tone", numbers) == meaning


def test_only_ones_are_asked_about():
    # 1 is the worst rank and the best score
    with pytest.raises(Misfit, match="found no number but 1, expected --numbers rank or --numbers score"):
        decide_meaning("tone", [1.0])


@pytest.mark.parametrize(("numbers", "words"), [([0, 1, 4], "found 0 beside 4"), ([0.5, 2], "found 0.5 beside 2")])
def test_ranks_and_scores_mixed_are_asked_about(numbers, words):
    with pytest.raises(Misfit, match=words):
        decide_meaning("tone", numbers)


@law_over("value", ["1_000", "0x10", "१", "1e400", "inf", "1,5", True, None, 10**400, float("nan")])
def test_what_only_looks_like_a_number_is_none(value):
    assert number_of(value) is None
