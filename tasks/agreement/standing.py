"""Standing of a judge where people rated: the one place that decides whether to trust it on a criterion."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gradebook.rubrics.statistics.agreement import Measure
from gradebook.rubrics.statistics.chance import Chance, chance_of_interval
from gradebook.tasks.agreement.calibration import Calibration
from gradebook.tasks.agreement.mart import JUDGE_RATERS, RATERS
from gradebook.tasks.agreement.published_run import AgreementPart

LEAST_AGREEMENT = 0.6  # of the pairs of judge and people: a rule of thumb
# So many equal pairs of two levels come by chance in 1 of 32; a bootstrap of equal pairs has no width.
LEAST_PERFECT = 6
SKILLS = ("cohen_kappa_quadratic", "spearman")  # 0 by chance; the second for scores that are not levels


class Trust(StrEnum):
    """Trust in a judge on a criterion, least first. CHANCE: no better than chance, as far as the ratings show.

    WEAK: fewer than `LEAST_AGREEMENT` of the pairs are equal, and people agree more. BIASED: more lenient or stricter
    than people beyond chance. UNKNOWN: too few ratings, or too equal ones.
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
    are not levels, or without pairs. skill: agreement beyond chance, the first known of `SKILLS`. bias: the judge's
    mean score minus people's. is_penalty: a high score is bad. off: models whose mean by the judge is outside the
    interval of the mean corrected by ratings.
    """

    criterion_id: str
    pair_count: int
    rate: float | None
    people_rate: float | None
    skill: Measure
    bias: Measure
    is_penalty: bool
    off: tuple[Calibration, ...]

    @property
    def has_skill(self) -> Chance:
        """Whether the judge agrees with people more than chance does (ABOVE)."""
        value, known = self.skill.value, chance_of_interval(self.skill.ci_low, self.skill.ci_high)
        if known is not Chance.UNKNOWN or value is None:
            return known
        if value <= 0.0:
            return Chance.WITHIN
        return Chance.ABOVE if value == 1.0 and self.pair_count >= LEAST_PERFECT else Chance.UNKNOWN

    @property
    def is_biased(self) -> bool:
        """Whether the bias over all models is beyond chance."""
        return chance_of_interval(self.bias.ci_low, self.bias.ci_high).is_beyond

    @property
    def leaning(self) -> str | None:
        """`lenient` or `strict` beyond chance over all models; None if neither."""
        return leaning_of(self.bias.value or 0.0, is_penalty=self.is_penalty) if self.is_biased else None

    @property
    def trust(self) -> Trust:
        if self.has_skill in (Chance.WITHIN, Chance.BELOW):
            return Trust.CHANCE
        is_rare = self.rate is not None and self.rate < min(LEAST_AGREEMENT, self.people_rate or 1.0)
        if is_rare:
            return Trust.WEAK
        if self.is_biased or self.off:
            return Trust.BIASED
        return Trust.UNKNOWN if self.has_skill is Chance.UNKNOWN else Trust.GOOD


def judge_standings(
    parts: Iterable[AgreementPart], means: Sequence[Calibration], penalties: Collection[str]
) -> tuple[JudgeStanding, ...]:
    """Standings by criterion, least trusted first. penalties: ids of the criteria with a negative weight."""
    together = [part for part in parts if part.judge is None and part.rater is None]
    people = {part.criterion_id: part.measure("percent_agreement").value for part in together if part.kind == RATERS}
    found = [
        JudgeStanding(
            part.criterion_id,
            part.pair_count,
            part.measure("percent_agreement").value,
            people.get(part.criterion_id),
            next((each for each in map(part.measure, SKILLS) if each.value is not None), part.measure(SKILLS[0])),
            part.measure("bias"),
            part.criterion_id in penalties,
            tuple(row for row in means if row.criterion_id == part.criterion_id and is_off(row)),
        )
        for part in together
        if part.kind == JUDGE_RATERS
    ]
    order = list(Trust)
    return tuple(sorted(found, key=lambda each: (order.index(each.trust), each.rate or 0.0, each.criterion_id)))


def is_off(row: Calibration) -> bool:
    """Whether the judge's mean is outside the interval of the corrected mean.

    Never of ratings that are not a random sample.
    """
    if not row.is_random:
        return False
    low, high, naive = row.corrected.ci_low, row.corrected.ci_high, row.naive.value
    return naive is not None and chance_of_interval(low, high, naive).is_beyond


def leaning_of(difference: float, *, is_penalty: bool) -> str:
    """`lenient` or `strict`, of a judge whose score minus people's is this; a high score of a penalty is strict."""
    return "lenient" if (difference > 0) != is_penalty else "strict"
