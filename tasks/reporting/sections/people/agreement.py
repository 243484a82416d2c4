"""How far the judge agrees with people, people with one another and judges with one another, as pictures."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gradebook.rubrics.statistics.agreement import Measure
from gradebook.tasks.agreement.mart import JUDGE_RATERS, JUDGES, RATERS
from gradebook.tasks.agreement.published_run import AgreementPart, measure_parts
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.reporting.drawing.charts import draw, shortened
from gradebook.tasks.reporting.drawing.figures import Column, Figure, Table
from gradebook.tasks.reporting.source.report_source import ReportSource
from gradebook.tasks.system.number_format import counted, rate_words, score_words, signed_words

MOST_CRITERIA = 10  # in one picture
WHO = {JUDGE_RATERS: "judge and people", RATERS: "people among themselves", JUDGES: "judges among themselves"}
SHOWN = ("percent_agreement", "cohen_kappa_quadratic", "gwet_ac1", "alpha_ordinal", "spearman", "bias")
_WORDS = (Column("Criterion"), Column("Who"))
_NUMBERS = ("Outputs", "Pairs", "Same level", "Kappa, quadratic", "AC1", "Alpha, ordinal", "Spearman", "Bias")
_PUBLISHED = """
select criterion_id, kind, judge, n, pair_count, value from agreement
where run_id = ? and rater is null and statistic = 'percent_agreement'
"""


@dataclass(frozen=True, slots=True)
class HeldAgreement:
    """What was measured by the ratings that the lake holds now. note: why nothing was, if so.

    is_as_published: whether the table `agreement` says the same. penalties: as `penalties_of`.
    """

    parts: tuple[AgreementPart, ...]
    note: str | None
    is_as_published: bool
    penalties: frozenset[str]

    def together(self, kind: str) -> tuple[AgreementPart, ...]:
        """Of each criterion the part of all of that kind together, the least agreement first."""
        found = [part for part in self.parts if part.kind == kind and part.judge is None]
        return tuple(sorted(found, key=_agreement_order))

    def rates(self, kind: str) -> tuple[tuple[AgreementPart, float], ...]:
        """Those of `together` whose scores are levels, each with the share of pairs with the same one."""
        found = ((part, rate_of(part)) for part in self.together(kind))
        return tuple((part, rate) for part, rate in found if rate is not None)

    def rate(self, kind: str, criterion_id: str) -> float | None:
        """The share of one criterion; None where nobody made a pair, or the scores are no levels."""
        return next((rate for part, rate in self.rates(kind) if part.criterion_id == criterion_id), None)


def read_agreement(source: ReportSource) -> HeldAgreement:
    """Measure it once for the page: ratings may have come after the run was published, and bear on its numbers."""
    return source.once("agreement", _measure)


def _measure(source: ReportSource) -> HeldAgreement:
    parts, note = measure_parts(source.connection, source.run_id, is_by_rater=False)
    published = {
        (row["criterion_id"], row["kind"], row["judge"]): row for row in source.rows(_PUBLISHED, source.run_id)
    }
    found = {(part.criterion_id, part.kind, part.judge): _figures(part) for part in parts}
    said = {key: (row["n"], row["pair_count"], row["value"]) for key, row in published.items()}
    return HeldAgreement(parts, note, found == said, penalties_of(source))


def penalties_of(source: ReportSource) -> frozenset[str]:
    """The rubric's criteria of negative weight: a high score on them is bad news."""
    return frozenset(row["criterion_id"] for row in source.criteria if (row["weight"] or 0) < 0)


def is_kind(difference: float, *, is_penalty: bool) -> bool:
    """Whether a judge whose mean is off by this is too kind; it is too strict otherwise."""
    return (difference > 0) != is_penalty


def _figures(part: AgreementPart) -> tuple[int, int, float | None]:
    return part.n, part.pair_count, rate_of(part)


def rate_of(part: AgreementPart) -> float | None:
    """The share of pairs with the same level; None where scores are no levels."""
    return part.measure("percent_agreement").value


def _agreement_order(part: AgreementPart) -> tuple[bool, float, str]:
    """The least agreement first; scores that are no levels last, as nothing is known of theirs."""
    rate = rate_of(part)
    return rate is None, rate or 0.0, part.criterion_id


def agreement_table(held: HeldAgreement) -> Table:
    """Every part with its statistics, each with its interval, and why one is missing."""
    columns = (*_WORDS, *(Column(name, is_number=True) for name in _NUMBERS), Column("Not known because"))
    return Table("Agreement, with 95% intervals", columns, tuple(_cells(part) for part in held.parts))


def _cells(part: AgreementPart) -> tuple[str, ...]:
    measures = [part.measure(statistic) for statistic in SHOWN]
    reasons = dict.fromkeys(each.reason for each in measures if each.reason and each.value is None)
    who = WHO[part.kind] if part.judge is None else f"{part.judge} and {_OTHERS[part.kind]}"
    figures = (rated_words(measures[0]), *map(_with_interval, measures[1:-1]), bias_words(measures[-1]))
    return (part.criterion_id, who, f"{part.n:,}", f"{part.pair_count:,}", *figures, "; ".join(reasons))


_OTHERS = {JUDGE_RATERS: "people", JUDGES: "the other judges"}


def rated_words(found: Measure) -> str:
    """A share with its interval."""
    if found.ci_low is None:
        return rate_words(found.value)
    return f"{rate_words(found.value)} ({rate_words(found.ci_low)} to {rate_words(found.ci_high)})"


def bias_words(found: Measure) -> str:
    """A difference of mean scores with its interval."""
    if found.ci_low is None:
        return signed_words(found.value)
    return f"{signed_words(found.value)} ({signed_words(found.ci_low)} to {signed_words(found.ci_high)})"


def _with_interval(found: Measure) -> str:
    if found.ci_low is None:
        return score_words(found.value)
    return f"{score_words(found.value)} ({score_words(found.ci_low)} to {score_words(found.ci_high)})"


def rates_figure(held: HeldAgreement, table: Table) -> Figure | None:
    """How often two gave the same level: judge and people beside people among themselves."""
    criteria = _drawn(held, "percent_agreement")
    kinds = [WHO[kind] for kind in WHO if held.together(kind)]
    rows = [
        _mark(part, part.measure("percent_agreement"), rated_words) | {"who": WHO[kind]}
        for kind in WHO
        for part in held.together(kind)
        if part.criterion_id in criteria and rate_of(part) is not None
    ]
    if not rows:
        return None
    svg = draw(
        "same_level", {"rows": rows}, criteria=[shortened(name) for name in criteria], kinds=kinds,
        height=max(60, (10 + 13 * len(kinds)) * len(criteria)),
    )  # fmt: skip
    title = "How often two gave the same level"
    return Figure("people-same-level", title, _rates_reading(held), svg, table)


def _rates_reading(held: HeldAgreement) -> str:
    known = held.rates(JUDGE_RATERS)
    if not known:
        among = held.rates(RATERS) or held.rates(JUDGES)
        if not among:
            return "Nothing is known of it."
        part, rate = among[0]
        return (
            f"{WHO[part.kind].capitalize()} gave the same level in {rate_words(rate)} of "
            f"{counted(part.pair_count, 'pair')} on {part.criterion_id}, where they agree least."
        )
    lowest, rate = known[0]
    words = (
        f"Judge and people agree least on {lowest.criterion_id}: the same level in {rate_words(rate)} of "
        f"{counted(lowest.pair_count, 'pair')}"
    )
    people = held.rate(RATERS, lowest.criterion_id)
    if people is None:
        return f"{words}."
    beside = f"{words}; people among themselves in {rate_words(people)}."
    return f"{beside} The judge is no further from people than they are from one another." if rate >= people else beside


def bias_figure(held: HeldAgreement, table: Table) -> Figure | None:
    """How much kinder or stricter than people the judge is."""
    parts = [part for part in held.together(JUDGE_RATERS) if part.measure("bias").value is not None]
    if not parts:
        return None
    drawn = sorted(parts, key=lambda part: -abs(part.measure("bias").value or 0.0))[:MOST_CRITERIA]
    rows = [_mark(part, part.measure("bias"), bias_words) for part in drawn]
    svg = draw(
        "bias", {"rows": rows}, criteria=[shortened(part.criterion_id) for part in drawn],
        height=max(50, 26 * len(drawn)),
    )  # fmt: skip
    title = "Whether the judge is kinder or stricter than people"
    return Figure("people-bias", title, _bias_reading(held, drawn), svg, table)


def _bias_reading(held: HeldAgreement, parts: Sequence[AgreementPart]) -> str:
    penalties = [part.criterion_id for part in parts if part.criterion_id in held.penalties]
    words = _largest_bias(held, parts)
    if not penalties:
        return words
    # The axis says the contrary, and is right about all the others.
    return f"{words} The other way round on penalties, where a higher mean is stricter: {', '.join(penalties)}."


def _largest_bias(held: HeldAgreement, parts: Sequence[AgreementPart]) -> str:
    sure = [part for part in parts if is_biased(part)]
    if sure:
        part = sure[0]
        value = part.measure("bias").value or 0.0
        more = f", and {len(sure) - 1} more are off beyond chance" if len(sure) > 1 else ""
        return (
            f"On {part.criterion_id} the judge's mean is {abs(value):.3f} {'above' if value > 0 else 'below'} that of "
            f"people, {'too kind' if is_too_kind(held, part) else 'too strict'} beyond what chance explains{more}."
        )
    part = parts[0]
    return (
        f"No criterion's difference is beyond what chance explains; the largest is "
        f"{bias_words(part.measure('bias'))} on {part.criterion_id}."
    )


def is_too_kind(held: HeldAgreement, part: AgreementPart) -> bool:
    """Which way the judge is off: on a penalty a higher score is the stricter one."""
    return is_kind(part.measure("bias").value or 0.0, is_penalty=part.criterion_id in held.penalties)


def is_biased(part: AgreementPart) -> bool:
    """Whether the interval of the judge's bias leaves out 0."""
    found = part.measure("bias")
    return found.ci_low is not None and found.ci_high is not None and not found.ci_low <= 0.0 <= found.ci_high


def _drawn(held: HeldAgreement, statistic: str) -> list[str]:
    """The criteria with the least agreement, of judge and people where it is known."""
    every: Iterator[AgreementPart] = (part for kind in WHO for part in held.together(kind))
    known = dict.fromkeys(part.criterion_id for part in every if part.measure(statistic).value is not None)
    return list(known)[:MOST_CRITERIA]


def _mark(part: AgreementPart, found: Measure, words: Callable[[Measure], str]) -> Row:
    """A dot with its interval. words: how its number is told."""
    name = shortened(part.criterion_id)
    tip = f"{name}, {WHO[part.kind]}: {words(found)} over {counted(part.pair_count, 'pair')}"
    return {"criterion": name, "value": found.value, "low": found.ci_low, "high": found.ci_high, "tip": tip}
