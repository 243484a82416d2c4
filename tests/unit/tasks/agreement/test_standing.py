"""Standing of a judge: what is said of it over several criteria, and beside people."""

from dataclasses import replace

import numpy as np
import pytest

from gradebook.rubrics.statistics.agreement import Measure, measure_raters, measure_sides
from gradebook.rubrics.statistics.calibration import Estimate
from gradebook.rubrics.statistics.rater_comparison import alpha_over_people
from gradebook.rubrics.statistics.significance import Chance, p_of_interval
from gradebook.tasks.agreement.calibration import Calibration
from gradebook.tasks.agreement.published_run import AgreementPart
from gradebook.tasks.agreement.standing import SKILLS, judge_standings, off_means
from gradebook.tasks.published.verdict import standing_words

SCALE = np.array([0.0, 1.0])
UNKNOWN = Estimate(None, None, None, None)


def parts(criterion, scores):
    """Parts of one criterion. scores: (voice, output), the judge's first."""
    judge, people = measure_sides(scores, scores, SCALE), measure_raters(scores[1:], scores[1:], SCALE)
    beside = alpha_over_people(scores, np.arange(scores.shape[1]))
    yield AgreementPart(criterion, "judge_raters", None, None, judge.n, 0, (*judge.measures, beside), (), ())
    yield AgreementPart(criterion, "raters", None, None, people.n, 0, people.measures, (), ())


def standing(scores):
    (found,) = judge_standings(parts("tone", scores), (), ())
    return found


def voices(errors, count=300, seed=1):
    """Two levels, most of them the upper one, as heard by voices of different errors."""
    rng = np.random.default_rng(seed)
    quality = rng.random(count)
    return np.array([(quality + error * rng.normal(size=count) > 0.25).astype(float) for error in errors])


def test_a_judge_that_passes_everything_is_no_better_than_chance_and_behind_people():
    scores = voices((0.1, 0.1, 0.1))
    scores[0] = 1.0
    found = standing(scores)
    assert (found.has_skill, found.beside_people) == (Chance.WITHIN, Chance.BELOW)


def test_ratings_of_outputs_that_a_queue_chose_do_not_show_that_a_judge_is_no_better_than_chance():
    scores = voices((0.1, 0.1, 0.1))
    scores[0] = 1.0
    chosen = [Calibration("tone", "m", None, 0, 300, *[UNKNOWN] * 4, 0.0, None, None, None, True, 40)]
    (found,) = judge_standings(parts("tone", scores), chosen, ())
    assert (found.has_skill, found.trust.value, found.is_biased) == (Chance.UNKNOWN, "unknown", False)
    assert standing_words(found.trust, [found]).endswith("(40 ratings of outputs that a queue chose)")


@pytest.mark.parametrize(("chosen_count", "trust"), [(0, "biased"), (60, "biased"), (80, "unknown")])
def test_a_few_chosen_ratings_hide_no_bias_and_many_show_none(chosen_count, trust):
    scores = voices((0.1, 0.1, 0.1))
    scores[0][(scores[0] == 0) & (np.random.default_rng(3).random(300) < 0.5)] = 1.0
    rows = [replace(part, pair_count=600) for part in parts("tone", scores)]
    means = [Calibration("tone", "m", None, 300, 0, *[UNKNOWN] * 4, 0.0, None, None, None, True, chosen_count)]
    (found,) = judge_standings(rows, means, ())
    assert (found.trust.value, found.bias_p < 0.001) == (trust, True)


def test_a_judge_like_a_person_agrees_with_people_as_they_do():
    assert standing(voices((0.1, 0.15, 0.15, 0.15))).beside_people is Chance.ABOVE


def test_of_few_ratings_nothing_is_said_of_judge_and_people():
    assert standing(voices((0.1, 0.15, 0.15), count=25)).beside_people in (Chance.WITHIN, Chance.UNKNOWN)


def test_people_who_agree_by_chance_alone_are_no_measure():
    scores = np.random.default_rng(2).integers(0, 2, (4, 300)).astype(float)
    assert standing(scores).beside_people is Chance.UNKNOWN


def biased(criterion, low):
    measures = (Measure("bias", 0.1, low, 0.2 - low, None), Measure("percent_agreement", 0.8, 0.7, 0.9, None))
    return AgreementPart(criterion, "judge_raters", None, None, 50, 50, measures, (), ())


def test_a_bias_alone_among_many_criteria_may_be_chance():
    # interval .01 to .19: t of 20 degrees = 2.0860 x .1 / .09 = 2.318, p = .0312; of 5 the lowest has to be .01 or less
    one = biased("tone", 0.01)
    (alone,) = judge_standings([one], (), ())
    assert (alone.leaning, alone.bias_p) == ("lenient", pytest.approx(0.0312, abs=1e-4))
    several = judge_standings([one, *(biased(f"c{place}", -0.1) for place in range(4))], (), ())
    assert [each.leaning for each in several] == [None] * 5
    assert min(each.bias_p for each in several) == pytest.approx(5 * 0.0312, abs=5e-4)


def mean(criterion, naive, low, *, is_random=True):
    corrected = Estimate(0.5, low, 1.0 - low, None)
    figures = (Estimate(naive, None, None, None), UNKNOWN, corrected, UNKNOWN)
    return Calibration(criterion, "m", None, 50, 50, *figures, 0.5, None, None, None, is_random)


def test_means_off_are_those_of_random_samples_beyond_chance_of_all():
    # .62 against .5 (.4 to .6): t = 2.50, p = .021, alone enough, among 4 means not; .7: t = 4.17, p = .0005
    assert [row.naive.value for row in off_means([mean("a", 0.62, 0.4)])] == [0.62]
    rest = [mean("b", 0.5, 0.4), mean("c", 0.5, 0.4), mean("d", 0.5, 0.4)]
    assert off_means([mean("a", 0.62, 0.4), *rest]) == ()
    assert [row.criterion_id for row in off_means([mean("a", 0.7, 0.4), *rest])] == ["a"]
    assert off_means([mean("a", 0.7, 0.4, is_random=False)]) == ()


def test_the_p_of_an_interval_that_ends_at_chance_is_one_in_twenty():
    assert p_of_interval(0.3, 0.0, 0.5, degrees=9) == pytest.approx(0.05, abs=1e-9)
    assert p_of_interval(0.3, 0.3, 0.5, by_chance=0.1, degrees=9) == 0.0


WIDE = "on tone (bias +0.070, -0.011 to +0.151), of which no bias is shown, nor that it is small"


@pytest.mark.parametrize(
    ("low", "high", "words"), [(-0.01, 0.04, "and with a bias under 0.05 on tone"), (-0.011, 0.151, WIDE)]
)
def test_a_bias_is_called_small_only_where_its_whole_interval_is(low, high, words):
    bias, skill = Measure("bias", (low + high) / 2, low, high, None), Measure(SKILLS[0], 0.8, 0.6, 0.9, None)
    found = judge_standings(
        [AgreementPart("tone", "judge_raters", None, None, 100, 100, (skill, bias), (), ())], (), ()
    )
    assert standing_words(found[0].trust, found) == f"agrees with people beyond chance {words}"
