"""Agreement of judge and people: figures, confusion, means corrected by ratings."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from gradebook.rubrics.statistics.agreement import Measure
from gradebook.rubrics.statistics.calibration import Estimate
from gradebook.rubrics.statistics.rater_comparison import WITH_GAPS
from gradebook.rubrics.statistics.significance import Chance
from gradebook.rubrics.text.reasons import reason_words
from gradebook.rubrics.text.tables import Column, Table, table_of
from gradebook.rubrics.text.wording import counted, interval_words, rate_words, score_words, signed_words, with_interval
from gradebook.tasks.agreement.calibration import Calibration
from gradebook.tasks.agreement.mart import JUDGE_RATERS, JUDGES, RATERS
from gradebook.tasks.agreement.published_run import AgreementPart, measure_parts
from gradebook.tasks.agreement.standing import MOST_BEHIND, JudgeStanding, Trust, judge_standings, leaning_of, off_means
from gradebook.tasks.comparing.verdict import RunVerdict
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.published.verdict import standing_words
from gradebook.tasks.reporting.charts import Figure, distinct_labels, draw, shortened
from gradebook.tasks.reporting.report_source import Group, ReportSource

MOST_CRITERIA = 10  # in one picture
WHO = {JUDGE_RATERS: "judge with people", RATERS: "people with each other", JUDGES: "judges with each other"}
SHOWN = ("percent_agreement", "cohen_kappa_quadratic", "gwet_ac1", "alpha_ordinal", "spearman", "bias")
_WORDS = (Column("Criterion"), Column("Compared"))
_NUMBERS = ("Outputs", "Pairs", "Same level", "Kappa, quadratic", "AC1", "Alpha, ordinal", "Spearman", "Bias")
_PUBLISHED = """
select criterion_id, kind, judge, n, pair_count, value from agreement
where run_id = ? and rater is null and statistic = 'percent_agreement'
"""


@dataclass(frozen=True, slots=True)
class CurrentAgreement:
    """Agreement measured with the ratings now in the lake. note: what is missing or may mislead.

    is_as_published: whether the published table `agreement` has the same figures. penalties: as `penalties_of`.
    standings: of the judge, by criterion, least trusted first.
    """

    parts: tuple[AgreementPart, ...]
    note: str | None
    is_as_published: bool
    penalties: frozenset[str]
    standings: tuple[JudgeStanding, ...]

    def together(self, kind: str) -> tuple[AgreementPart, ...]:
        """Parts of all pairs of a kind, one per criterion, least agreement first."""
        of_kind = [part for part in self.parts if part.kind == kind and part.judge is None]
        return tuple(sorted(of_kind, key=_agreement_order))

    def rates(self, kind: str) -> tuple[tuple[AgreementPart, float], ...]:
        """Parts of `together` whose scores are levels, each with the share (0..1) of pairs with the same level."""
        part_rates = ((part, rate_of(part)) for part in self.together(kind))
        return tuple((part, rate) for part, rate in part_rates if rate is not None)

    def rate(self, kind: str, criterion_id: str) -> float | None:
        """Share (0..1) of pairs with the same level on a criterion; None without pairs or without levels."""
        return next((rate for part, rate in self.rates(kind) if part.criterion_id == criterion_id), None)


def report_verdict(source: ReportSource) -> RunVerdict:
    """Verdict on the run with the ratings now in the lake, and with the run that the report compares it with."""
    standings = read_agreement(source).standings
    return replace(source.summary, standings=standings, comparison=source.comparison).verdict


def read_agreement(source: ReportSource) -> CurrentAgreement:
    """Measure agreement once per page, with all ratings: some may be newer than the published table."""
    return source.once("agreement", _measure)


def _measure(source: ReportSource) -> CurrentAgreement:
    parts, note = measure_parts(source.connection, source.run_id, is_by_rater=False)
    published = {
        (row["criterion_id"], row["kind"], row["judge"]): row for row in source.rows(_PUBLISHED, source.run_id)
    }
    measured = {(part.criterion_id, part.kind, part.judge): _figures(part) for part in parts}
    expected = {key: (row["n"], row["pair_count"], row["value"]) for key, row in published.items()}
    penalties = penalties_of(source)
    has_judge = source.summary.run["judge"] is not None
    standings = judge_standings(parts, source.summary.means, penalties) if has_judge else ()
    return CurrentAgreement(parts, note, measured == expected, penalties, standings)


def penalties_of(source: ReportSource) -> frozenset[str]:
    """Ids of the rubric's criteria with a negative weight, on which a high score is bad."""
    return frozenset(row["criterion_id"] for row in source.criteria if (row["weight"] or 0) < 0)


def _figures(part: AgreementPart) -> tuple[int, int, float | None]:
    return part.n, part.pair_count, rate_of(part)


def rate_of(part: AgreementPart) -> float | None:
    """Share (0..1) of pairs with the same level; None if the scores are not levels."""
    return part.measure("percent_agreement").value


def _agreement_order(part: AgreementPart) -> tuple[bool, float, str]:
    """Sort key: least agreement first, unknown agreement last."""
    rate = rate_of(part)
    return rate is None, rate or 0.0, part.criterion_id


def agreement_table(agreement: CurrentAgreement) -> Table:
    """Table of every part's statistics with their intervals, or the reason why one is missing."""
    columns = (*_WORDS, *(Column(name, is_number=True) for name in _NUMBERS), Column("Why unknown"))
    return Table("Agreement, with 95% intervals", columns, tuple(_cells(part) for part in agreement.parts))


def _cells(part: AgreementPart) -> tuple[str, ...]:
    measures = [part.measure(statistic) for statistic in SHOWN]
    reasons = dict.fromkeys(
        reason_words(measure.reason) for measure in measures if measure.reason and measure.value is None
    )
    who = WHO[part.kind] if part.judge is None else f"{part.judge} with {_OTHERS[part.kind]}"
    figures = (rated_words(measures[0]), *map(value_words, measures[1:-1]), bias_words(measures[-1]))
    return (part.criterion_id, who, f"{part.n:,}", f"{part.pair_count:,}", *figures, "; ".join(reasons))


_OTHERS = {JUDGE_RATERS: "people", JUDGES: "the other judges"}


def rated_words(measure: Measure) -> str:
    """Share with its interval, in percent."""
    return with_interval(measure.value, measure.ci_low, measure.ci_high, rate_words)


def bias_words(measure: Measure) -> str:
    """Difference of mean scores with its interval."""
    return with_interval(measure.value, measure.ci_low, measure.ci_high, signed_words)


def value_words(figure: Measure | Estimate) -> str:
    """Value with its interval."""
    return with_interval(figure.value, figure.ci_low, figure.ci_high)


def rates_figure(agreement: CurrentAgreement, table: Table) -> Figure | None:
    """Draw how often two sides gave the same level, by kind of pair; None if unknown."""
    criteria = _drawn(agreement, "percent_agreement")
    kinds = [WHO[kind] for kind in WHO if agreement.together(kind)]
    rows = [
        _mark(part, part.measure("percent_agreement"), rated_words) | {"who": WHO[kind]}
        for kind in WHO
        for part in agreement.together(kind)
        if part.criterion_id in criteria and rate_of(part) is not None
    ]
    if not rows:
        return None
    svg = draw(
        "same_level", {"rows": rows}, criteria=[shortened(name) for name in criteria], kinds=kinds,
        height=max(60, (10 + 13 * len(kinds)) * len(criteria)),
    )  # fmt: skip
    title = "How often two ratings have the same level"
    return Figure("people-same-level", title, _rates_sentence(agreement), svg, table)


def _rates_sentence(agreement: CurrentAgreement) -> str:
    judge_rates = agreement.rates(JUDGE_RATERS)
    if not judge_rates:
        among = agreement.rates(RATERS) or agreement.rates(JUDGES)
        if not among:
            return "Agreement is unknown."
        part, rate = among[0]
        return (
            f"{'People' if part.kind == RATERS else 'Judges'} agree least on {part.criterion_id}: the same level in "
            f"{rate_words(rate)} of {counted(part.pair_count, 'pair')}."
        )
    lowest, rate = judge_rates[0]
    doubt = [standing for standing in agreement.standings if standing.trust is Trust.CHANCE]
    chance = f" The judge {standing_words(Trust.CHANCE, doubt)}." if doubt else ""
    sentence = (
        f"Judge and people agree least on {lowest.criterion_id}: the same level in {rate_words(rate)} of "
        f"{counted(lowest.pair_count, 'pair')}"
    )
    people = agreement.rate(RATERS, lowest.criterion_id)
    if people is None:
        return f"{sentence}.{gap_words(lowest)}{chance}"
    standing = next(
        (candidate for candidate in agreement.standings if candidate.criterion_id == lowest.criterion_id), None
    )
    comparison = "" if standing is None else _compared_with_people(standing)
    return f"{sentence}; people with each other in {rate_words(people)}.{gap_words(lowest)}{comparison}{chance}"


def _compared_with_people(standing: JudgeStanding) -> str:
    """Sentence that compares the judge's agreement with people to people's own; empty if neither is beyond chance."""
    figure = f"alpha {bias_words(standing.over_people)} against that of people with each other"
    if standing.beside_people is Chance.ABOVE:
        return f" The judge agrees with people as they do with each other, within {MOST_BEHIND:g}: {figure}."
    if standing.beside_people is Chance.BELOW:
        return f" The judge agrees with people less than they do with each other, beyond chance: {figure}."
    return ""


def gap_words(part: AgreementPart) -> str:
    """Sentence on the agreement with the judge's unscored verdicts as disagreement; empty if it left none unscored."""
    measure = part.measure(WITH_GAPS)
    gap_count = (measure.n or 0) - part.n
    if measure.value is None or gap_count <= 0:
        return ""
    outputs = counted(gap_count, "output")
    return f" With {outputs} that the judge left unscored as disagreement it is {rate_words(measure.value)}."


def bias_figure(agreement: CurrentAgreement, table: Table) -> Figure | None:
    """Draw the judge's bias: its mean score minus people's, by criterion; None if unknown."""
    parts = [part for part in agreement.together(JUDGE_RATERS) if part.measure("bias").value is not None]
    if not parts:
        return None
    drawn = sorted(parts, key=lambda part: -abs(part.measure("bias").value or 0.0))[:MOST_CRITERIA]
    rows = [_mark(part, part.measure("bias"), bias_words) for part in drawn]
    svg = draw(
        "bias", {"rows": rows}, criteria=[shortened(part.criterion_id) for part in drawn],
        height=max(50, 26 * len(drawn)),
    )  # fmt: skip
    title = "Whether the judge is more lenient or stricter than people"
    return Figure("people-bias", title, _bias_sentence(agreement, drawn), svg, table)


def _bias_sentence(agreement: CurrentAgreement, parts: Sequence[AgreementPart]) -> str:
    penalties = [part.criterion_id for part in parts if part.criterion_id in agreement.penalties]
    sentence = _largest_bias(agreement, parts)
    if not penalties:
        return sentence
    # The labels of the axis are right for all other criteria.
    return f"{sentence} On penalties a higher mean is stricter: {', '.join(penalties)}."


def _largest_bias(agreement: CurrentAgreement, parts: Sequence[AgreementPart]) -> str:
    standings = {standing.criterion_id: standing for standing in agreement.standings}
    drawn = [standings[part.criterion_id] for part in parts if part.criterion_id in standings]
    biased = [standing for standing in drawn if standing.leaning is not None]
    if biased:
        first, value = biased[0], biased[0].bias.value or 0.0
        more = f"; {len(biased) - 1} more are biased beyond chance" if len(biased) > 1 else ""
        return (
            f"On {first.criterion_id} the judge's mean is {abs(value):.3f} {'above' if value > 0 else 'below'} that of "
            f"people: too {first.leaning} beyond chance{more}."
        )
    off = [standing.criterion_id for standing in drawn if standing.off]
    models = f" Of single models it is, on {', '.join(off)}: see the corrected means." if off else ""
    part = parts[0]
    return (
        f"No criterion's difference over all models is beyond chance; the largest is "
        f"{bias_words(part.measure('bias'))} on {part.criterion_id}.{models}"
    )


def _drawn(agreement: CurrentAgreement, statistic: str) -> list[str]:
    """Criteria with the least agreement, between judge and people if known."""
    every: Iterator[AgreementPart] = (part for kind in WHO for part in agreement.together(kind))
    measured = dict.fromkeys(part.criterion_id for part in every if part.measure(statistic).value is not None)
    return list(measured)[:MOST_CRITERIA]


def _mark(part: AgreementPart, measure: Measure, measure_words: Callable[[Measure], str]) -> Row:
    """Dot with its interval. words: formats its number."""
    name = shortened(part.criterion_id)
    tip = f"{name}, {WHO[part.kind]}: {measure_words(measure)} over {counted(part.pair_count, 'pair')}"
    return {"criterion": name, "value": measure.value, "low": measure.ci_low, "high": measure.ci_high, "tip": tip}


MOST_DRAWN = 6  # criteria with the least agreement
MOST_UPRIGHT = 4  # levels with horizontal names; more have slanted names
WIDTH = 220.0  # of all cells of a picture


def confusion_figures(source: ReportSource, agreement: CurrentAgreement) -> tuple[Figure, ...]:
    """Draw a matrix for each criterion with levels from the judge and from people, least agreement first."""
    drawn = [part for part in agreement.together(JUDGE_RATERS) if part.confusion][:MOST_DRAWN]
    return tuple(
        _figure(source, part, number, is_penalty=part.criterion_id in agreement.penalties)
        for number, part in enumerate(drawn, start=1)
    )


def _figure(source: ReportSource, part: AgreementPart, number: int, *, is_penalty: bool) -> Figure:
    names = level_names(source, part)
    labels = distinct_labels(names)
    cells = list(_confusion_cells(part))
    rows = [
        {"judge": labels[judge], "people": labels[people], "count": count, "same": judge == people}
        | {"tip": f"judge {labels[judge]}, people {labels[people]}: {counted(count, 'pair')}"}
        for judge, people, count in cells
    ]
    svg = draw(
        "confusion",
        {"rows": rows},
        levels=labels,
        most=max(1, *(count for _, _, count in cells)),
        angle=0 if len(labels) <= MOST_UPRIGHT else -45,
        limit=WIDTH / len(labels) - 4 if len(labels) <= MOST_UPRIGHT else 80,
        height=max(28.0, 120.0 / len(labels)) * len(labels),
    )
    numbers = table_of(
        f"Levels of {part.criterion_id}",
        ("Judge", "People"),
        ("Pairs",),
        ((names[judge], names[people], f"{count:,}") for judge, people, count in cells),
    )
    title = f"{part.criterion_id}: the judge's level by people's"
    return Figure(
        f"people-levels-{number}", title, _confusion_sentence(part, names, is_penalty=is_penalty), svg, numbers
    )


def _confusion_cells(part: AgreementPart) -> Iterator[tuple[int, int, int]]:
    """Index of the judge's level, index of people's level, and the count of such pairs."""
    for judge, counts in enumerate(part.confusion):
        for people, count in enumerate(counts):
            yield judge, people, count


def _confusion_sentence(part: AgreementPart, names: list[str], *, is_penalty: bool) -> str:
    cells = list(_confusion_cells(part))
    total = sum(count for _, _, count in cells)
    same = sum(count for judge, people, count in cells if judge == people)
    better = sum(count for judge, people, count in cells if judge != people and (judge > people) != is_penalty)
    sentence = f"The same level in {same:,} of {counted(total, 'pair')} ({rate_words(same / total)})"
    if same == total:
        return f"{sentence}."
    judge, people, count = max((cell for cell in cells if cell[0] != cell[1]), key=lambda cell: cell[2])
    worse = total - same - better
    return (
        f"{sentence}; the judge gave the better level in {better:,}, the worse level in {worse:,}. "
        f"Most frequent difference: judge {names[judge]}, people {names[people]} ({counted(count, 'time')})."
    )


def level_names(source: ReportSource, part: AgreementPart) -> list[str]:
    """Names of a part's levels, lowest score first; the score in place of a name that the rubric does not give."""
    labels: dict[float, list[str]] = {}
    for row in source.levels:
        if row["criterion_id"] == part.criterion_id:
            labels.setdefault(row["score"], []).append(row["label"] or row["level_id"])
    return [" / ".join(labels.get(score, [f"{score:.3g}"])) for score in part.levels]


MOST_LINES = 16  # of a picture, one per criterion and model
KINDS = ("judge alone", "corrected", "people alone")
_MEANS_WORDS = ("Criterion", "Model")
_MEANS_NUMBERS = ("Rated", "Of", "Judge alone", "Corrected", "95% interval", "People alone", "Their interval")


def shift_of(row: Calibration) -> float:
    """Judge's mean minus the corrected mean; 0 if one of them is unknown."""
    if row.corrected.value is None or row.naive.value is None:
        return 0.0
    return row.naive.value - row.corrected.value


def means_figure(source: ReportSource, means: Sequence[Calibration]) -> Figure | None:
    """Draw the criteria with the largest corrections, the three means of each model on one line; None if unknown."""
    corrected = [row for row in means if row.corrected.value is not None and _group(source, row) in source.drawn_groups]
    if not corrected:
        return None
    criteria = _drawn_criteria(corrected)
    drawn = [row for row in corrected if row.criterion_id in criteria]
    groups = [group for group in source.drawn_groups if any(_group(source, row) == group for row in drawn)]
    models = [group.label for group in groups]
    svg = draw(
        "corrected",
        {"rows": [mark for row in drawn for mark in _marks(_group(source, row), row)]},
        criteria=[shortened(name) for name in criteria],
        models=models,
        colours=[group.colour for group in groups],
        kinds=list(KINDS),
        height=34 * len(models),
    )
    title = "Means corrected by people's ratings"
    left_out = len({row.criterion_id for row in corrected}) - len(criteria)
    more = f" {counted(left_out, 'criterion', 'criteria')} with smaller corrections: see the table." if left_out else ""
    return Figure("people-corrected", title, corrected_sentence(source, means) + more, svg, means_table(means))


def _drawn_criteria(corrected: Sequence[Calibration]) -> list[str]:
    """Criteria with the largest corrections, as many as there is room for."""
    by_size = dict.fromkeys(row.criterion_id for row in sorted(corrected, key=lambda row: -abs(shift_of(row))))
    model_count = len({row.name for row in corrected})
    return list(by_size)[: max(1, MOST_LINES // model_count)]


def corrected_sentence(source: ReportSource, means: Sequence[Calibration]) -> str:
    """Sentences on the largest correction, the number beyond chance, and the means without a random sample."""
    doubtful = sum(not row.is_random for row in means)
    sentence = (
        f"Of {counted(doubtful, 'mean')} the rated outputs are not a random sample, so nothing is said: see the notes."
        if doubtful
        else ""
    )
    corrected = [row for row in means if row.corrected.value is not None and row.is_random]
    if not corrected:
        return sentence or "Too few outputs are rated to correct a mean."
    return f"{_largest_correction(source, corrected)} {sentence}".rstrip()


def _largest_correction(source: ReportSource, corrected: Sequence[Calibration]) -> str:
    off = off_means(corrected)
    row = max(off or corrected, key=lambda row: abs(shift_of(row)))
    sentence = (
        f"On {row.criterion_id} the judge alone gives {row.name} {score_words(row.naive.value)}; with people's ratings "
        f"of {row.n:,} of {counted(row.n + row.unrated_count, 'output')} it is {value_words(row.corrected)}"
    )
    if off:
        leaning = leaning_of(shift_of(row), is_penalty=row.criterion_id in penalties_of(source))
        return (
            f"{sentence}: the judge is too {leaning} there. "
            f"{len(off):,} of {counted(len(corrected), 'mean')} {'is' if len(off) == 1 else 'are'} off beyond chance."
        )
    biased = ", ".join(standing.criterion_id for standing in read_agreement(source).standings if standing.is_biased)
    of_all = f", though over all models the bias on {biased} is" if biased else ""
    return f"{sentence}. This is the largest correction; none of a single model is beyond chance{of_all}."


def means_table(means: Sequence[Calibration]) -> Table:
    """Table of all means, with the further ratings that would halve the interval, and notes on doubtful means."""
    columns = (
        *map(Column, _MEANS_WORDS),
        *(Column(heading, is_number=True) for heading in (*_MEANS_NUMBERS, "Ratings to halve the interval")),
        Column("Note"),
    )
    return Table("Means corrected by people's ratings", columns, tuple(_means_cells(row) for row in means))


def _means_cells(row: Calibration) -> tuple[str, ...]:
    reasons = (row.corrected.reason, row.more_reason if row.unrated_count else None, row.note)
    return (
        row.criterion_id,
        row.name,
        f"{row.n:,}",
        f"{row.n + row.unrated_count:,}",
        score_words(row.naive.value),
        score_words(row.corrected.value),
        interval_words(row.corrected.ci_low, row.corrected.ci_high),
        score_words(row.rated.value),
        interval_words(row.rated.ci_low, row.rated.ci_high),
        "–" if row.more_count is None else f"{row.more_count:,} more",
        "; ".join(dict.fromkeys(reason_words(reason) for reason in reasons if reason)),
    )


def _group(source: ReportSource, row: Calibration) -> Group:
    return source.group_of({"model": row.model, "checkpoint": row.checkpoint})


def _marks(group: Group, row: Calibration) -> list[Row]:
    estimates = zip(KINDS, (row.naive, row.corrected, row.rated), strict=True)
    return [
        {
            "criterion": shortened(row.criterion_id),
            "model": group.label,
            "kind": kind,
            "mean": estimate.value,
            "low": estimate.ci_low if kind == "corrected" else None,
            "high": estimate.ci_high if kind == "corrected" else None,
            "tip": f"{shortened(row.criterion_id)}, {group.label}, {kind}: {value_words(estimate)}",
        }
        for kind, estimate in estimates
        if estimate.value is not None
    ]
