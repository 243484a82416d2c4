"""Standing of a judge where people rated: the one place that decides whether to trust it on a criterion."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isnan, nan

from gradebook.rubrics.statistics.agreement import Measure
from gradebook.rubrics.statistics.rater_comparison import OVER_PEOPLE
from gradebook.rubrics.statistics.significance import (
    Chance,
    adjust_for_many,
    chance_of_interval,
    chance_of_p,
    is_significant,
    p_of_interval,
)
from gradebook.tasks.agreement.calibration import Calibration
from gradebook.tasks.agreement.mart import JUDGE_RATERS, RATERS
from gradebook.tasks.agreement.published_run import AgreementPart

LEAST_AGREEMENT = 0.6  # share of equal pairs of judge and people: a rule of thumb
# So many equal pairs of two levels have a probability of 1/32 by chance; their bootstrap interval has no width.
LEAST_PERFECT = 6
MOST_DEGREES = 20  # degrees of freedom: outputs may share cases, whose count a published figure lacks
MOST_BIAS = 0.05  # of scores in 0..1: a judge is unbiased if the bias's interval is within this limit
# Share of ratings on outputs that a rule chose, a little over gold's one in ten. An error of half a score on them moves
# the bias by about `MOST_BIAS`.
MOST_CHOSEN = 0.125
MOST_BEHIND = 0.1  # difference of alpha by which an acceptable judge may be behind people's own agreement
SKILLS = ("cohen_kappa_quadratic", "spearman")  # 0 by chance; spearman for scores that are not levels


class Trust(StrEnum):
    """Trust in a judge on a criterion, least first. CHANCE: no better than chance, as far as the ratings show.

    WEAK: the share of equal pairs is below `LEAST_AGREEMENT` and below people's own, and the skill, which gives credit
    for near levels, is below it too. BIASED: more lenient or stricter than people beyond chance. UNKNOWN: the ratings
    are too few, too equal, or too often of outputs that a rule chose. GOOD: none of these, which does not show a small
    bias.
    """

    CHANCE = "chance"
    WEAK = "weak"
    BIASED = "biased"
    UNKNOWN = "unknown"
    GOOD = "good"


@dataclass(frozen=True, slots=True)
class JudgeStanding:
    """Judge compared with people on a criterion.

    rate, people_rate: shares (0..1) of pairs with the same level, of judge and people and among people; None if scores
    are not levels, or without pairs. skill: agreement beyond chance, the first known of `SKILLS`. people_skill: of
    people with each other (alpha). over_people: alpha of the judge with people minus that of people with each other.
    chosen_count: ratings of outputs that a rule chose; with more than `MOST_CHOSEN` of all, nothing is concluded
    against the judge, as a good judge also errs on doubtful outputs. bias: the judge's mean score minus people's;
    bias_p: adjusted over the criteria, None if unknown. is_penalty: a high score is bad. off: models whose mean by the
    judge differs from the corrected mean, by `off_means`.
    """

    criterion_id: str
    pair_count: int
    rate: float | None
    people_rate: float | None
    skill: Measure
    people_skill: Measure
    over_people: Measure
    bias: Measure
    bias_p: float | None
    is_penalty: bool
    off: tuple[Calibration, ...]
    chosen_count: int = 0

    @property
    def has_many_chosen(self) -> bool:
        """Whether too many ratings are of outputs that a rule chose, so that the judge can't be called bad."""
        return self.chosen_count > MOST_CHOSEN * self.pair_count

    @property
    def has_skill(self) -> Chance:
        """Whether the judge agrees with people beyond chance (ABOVE)."""
        chance = self._measured_skill
        return Chance.UNKNOWN if self.has_many_chosen and chance is not Chance.ABOVE else chance

    @property
    def _measured_skill(self) -> Chance:
        value, chance = self.skill.value, chance_of_interval(self.skill.ci_low, self.skill.ci_high)
        if chance is not Chance.UNKNOWN or value is None:
            return chance
        if value <= 0.0:
            return Chance.WITHIN
        return Chance.ABOVE if value == 1.0 and self.pair_count >= LEAST_PERFECT else Chance.UNKNOWN

    @property
    def is_biased(self) -> bool:
        """Whether the bias over all models is beyond chance, adjusted for the number of criteria."""
        return not self.has_many_chosen and self._is_off_people

    @property
    def _is_off_people(self) -> bool:
        return chance_of_p(self.bias.value or 0.0, self.bias_p).is_beyond

    @property
    def is_unbiased(self) -> bool:
        """Whether the bias is shown to be small: its interval lies within `MOST_BIAS` of 0 (an equivalence test)."""
        low, high = self.bias.ci_low, self.bias.ci_high
        if self.has_many_chosen or low is None or high is None:
            return False
        return low > -MOST_BIAS and high < MOST_BIAS

    @property
    def beside_people(self) -> Chance:
        """Comparison of the judge's agreement with people and people's own agreement, by its interval.

        ABOVE: at most `MOST_BEHIND` lower; BELOW: lower beyond chance; WITHIN: neither. UNKNOWN: an interval is
        missing, or people's own agreement is not beyond chance.
        """
        low, high = self.over_people.ci_low, self.over_people.ci_high
        people = chance_of_interval(self.people_skill.ci_low, self.people_skill.ci_high)
        if low is None or high is None or people is not Chance.ABOVE:
            return Chance.UNKNOWN
        if high < 0.0:
            return Chance.BELOW
        return Chance.ABOVE if low > -MOST_BEHIND and self.has_skill is Chance.ABOVE else Chance.WITHIN

    @property
    def leaning(self) -> str | None:
        """`lenient` or `strict` if the bias over all models is beyond chance, else None."""
        return leaning_of(self.bias.value or 0.0, is_penalty=self.is_penalty) if self.is_biased else None

    @property
    def _is_weak(self) -> bool:
        """Whether judge and people rarely give the same level, or nearly the same on a longer scale."""
        is_rare = self.rate is not None and self.rate < min(LEAST_AGREEMENT, self.people_rate or 1.0)
        return is_rare and (self.skill.value or 0.0) < LEAST_AGREEMENT

    @property
    def trust(self) -> Trust:
        if self.has_skill in (Chance.WITHIN, Chance.BELOW):
            return Trust.CHANCE
        if self._is_weak and not self.has_many_chosen:
            return Trust.WEAK
        if self.is_biased or self.off:
            return Trust.BIASED
        is_open = self.has_many_chosen and (self._is_weak or self._is_off_people)
        return Trust.UNKNOWN if is_open or self.has_skill is Chance.UNKNOWN else Trust.GOOD


def judge_standings(
    parts: Iterable[AgreementPart], means: Sequence[Calibration], penalties: Collection[str]
) -> tuple[JudgeStanding, ...]:
    """Standings by criterion, least trusted first. penalties: ids of the criteria with a negative weight."""
    overall_parts = [part for part in parts if part.judge is None and part.rater is None]
    people = {part.criterion_id: part for part in overall_parts if part.kind == RATERS}
    judged = [part for part in overall_parts if part.kind == JUDGE_RATERS]
    biases = [part.measure("bias") for part in judged]
    p_values = _adjusted(
        [_p(bias.value, bias.ci_low, bias.ci_high, 0.0, part.n) for part, bias in zip(judged, biases, strict=True)]
    )
    off, chosen_counts = off_means(means), Counter[str]()
    for row in means:
        chosen_counts[row.criterion_id] += row.chosen_count
    standings = [
        JudgeStanding(
            part.criterion_id,
            part.pair_count,
            part.measure("percent_agreement").value,
            of_people.measure("percent_agreement").value,
            next((skill for skill in map(part.measure, SKILLS) if skill.value is not None), part.measure(SKILLS[0])),
            of_people.measure("alpha_interval"),
            part.measure(OVER_PEOPLE),
            bias,
            p,
            part.criterion_id in penalties,
            tuple(row for row in off if row.criterion_id == part.criterion_id),
            chosen_counts[part.criterion_id],
        )
        for part, bias, p in zip(judged, biases, p_values, strict=True)
        for of_people in [people.get(part.criterion_id, _empty_agreement(part.criterion_id))]
    ]
    order = list(Trust)
    return tuple(
        sorted(
            standings, key=lambda standing: (order.index(standing.trust), standing.rate or 0.0, standing.criterion_id)
        )
    )


def off_means(means: Sequence[Calibration]) -> tuple[Calibration, ...]:
    """Means by the judge that differ from the corrected mean beyond chance, adjusted for the number of means.

    Excludes means whose ratings are not a random sample.
    """
    random_means = [row for row in means if row.is_random]
    p_values = _adjusted(
        [
            _p(row.corrected.value, row.corrected.ci_low, row.corrected.ci_high, row.naive.value, row.n)
            for row in random_means
        ]
    )
    return tuple(row for row, p in zip(random_means, p_values, strict=True) if is_significant(p))


def _p(
    value: float | None, low: float | None, high: float | None, by_chance: float | None, output_count: int
) -> float | None:
    if value is None or low is None or high is None or by_chance is None:
        return None
    return p_of_interval(value, low, high, by_chance, degrees=float(min(max(1, output_count - 1), MOST_DEGREES)))


def _adjusted(p_values: Sequence[float | None]) -> list[float | None]:
    adjusted = adjust_for_many([nan if p is None else p for p in p_values]).tolist()
    return [None if isnan(p) else p for p in adjusted]


def _empty_agreement(criterion_id: str) -> AgreementPart:
    """Empty agreement, for people of whom no two rated the same outputs."""
    return AgreementPart(criterion_id, RATERS, None, None, 0, 0, (), (), ())


def leaning_of(difference: float, *, is_penalty: bool) -> str:
    """`lenient` or `strict`. difference: the judge's score minus people's. is_penalty: a high score is strict."""
    return "lenient" if (difference > 0) != is_penalty else "strict"
