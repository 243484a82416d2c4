"""Chart of the judge's means corrected by people's ratings: judge alone, corrected, people alone."""

from collections.abc import Sequence

from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.statistics.calibration import Estimate
from gradebook.tasks.agreement.calibration import Calibration
from gradebook.tasks.agreement.standing import leaning_of, off_means
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.reporting.drawing.charts import draw, shortened
from gradebook.tasks.reporting.drawing.figures import Column, Figure, Table
from gradebook.tasks.reporting.sections.people.agreement import penalties_of, read_agreement
from gradebook.tasks.reporting.source.report_source import Group, ReportSource
from gradebook.tasks.system.number_format import interval_words, score_words, with_interval

MOST_LINES = 16  # of a picture, one per criterion and model
KINDS = ("judge alone", "corrected", "people alone")
_WORDS = ("Criterion", "Model")
_NUMBERS = ("Rated", "Of", "Judge alone", "Corrected", "95% interval", "People alone", "Their interval")


def shift_of(row: Calibration) -> float:
    """Judge's mean minus the corrected mean; 0 if one of them is unknown."""
    if row.corrected.value is None or row.naive.value is None:
        return 0.0
    return row.naive.value - row.corrected.value


def means_figure(source: ReportSource, means: Sequence[Calibration]) -> Figure | None:
    """Draw the criteria with the largest corrections, the three means of each model on one line; None if unknown."""
    known = [row for row in means if row.corrected.value is not None and _group(source, row) in source.drawn_groups]
    if not known:
        return None
    criteria = _drawn_criteria(known)
    drawn = [row for row in known if row.criterion_id in criteria]
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
    left_out = len({row.criterion_id for row in known}) - len(criteria)
    more = f" {counted(left_out, 'criterion', 'criteria')} with smaller corrections: see the table." if left_out else ""
    return Figure("people-corrected", title, corrected_reading(source, means) + more, svg, means_table(means))


def _drawn_criteria(known: Sequence[Calibration]) -> list[str]:
    """Criteria with the largest corrections, as many as there is room for."""
    by_size = dict.fromkeys(row.criterion_id for row in sorted(known, key=lambda row: -abs(shift_of(row))))
    model_count = len({row.name for row in known})
    return list(by_size)[: max(1, MOST_LINES // model_count)]


def corrected_reading(source: ReportSource, means: Sequence[Calibration]) -> str:
    """Sentences with the largest correction, the number beyond chance, and the means of which nothing can be said."""
    doubtful = sum(not row.is_random for row in means)
    words = (
        f"Of {counted(doubtful, 'mean')} the rated outputs are not a random sample, so nothing is said: see the notes."
        if doubtful
        else ""
    )
    known = [row for row in means if row.corrected.value is not None and row.is_random]
    if not known:
        return words or "Too few outputs are rated to correct a mean."
    return f"{_largest_correction(source, known)} {words}".rstrip()


def _largest_correction(source: ReportSource, known: Sequence[Calibration]) -> str:
    off = off_means(known)
    row = max(off or known, key=lambda row: abs(shift_of(row)))
    words = (
        f"On {row.criterion_id} the judge alone gives {row.name} {score_words(row.naive.value)}; with people's ratings "
        f"of {row.n:,} of {counted(row.n + row.unrated_count, 'output')} it is {estimate_words(row.corrected)}"
    )
    if off:
        leaning = leaning_of(shift_of(row), is_penalty=row.criterion_id in penalties_of(source))
        return (
            f"{words}: the judge is too {leaning} there. "
            f"{len(off):,} of {counted(len(known), 'mean')} {'is' if len(off) == 1 else 'are'} off beyond chance."
        )
    biased = ", ".join(each.criterion_id for each in read_agreement(source).standings if each.is_biased)
    of_all = f", though over all models the bias on {biased} is" if biased else ""
    return f"{words}. This is the largest correction; none of a single model is beyond chance{of_all}."


def estimate_words(found: Estimate) -> str:
    """Mean with its interval."""
    return with_interval(found.value, found.ci_low, found.ci_high)


def means_table(means: Sequence[Calibration]) -> Table:
    """Table of all means, with the further ratings that would halve the interval, and notes on doubtful means."""
    columns = (
        *map(Column, _WORDS),
        *(Column(heading, is_number=True) for heading in (*_NUMBERS, "Ratings to halve the interval")),
        Column("Note"),
    )
    return Table("Means corrected by people's ratings", columns, tuple(_cells(row) for row in means))


def _cells(row: Calibration) -> tuple[str, ...]:
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
        "; ".join(dict.fromkeys(filter(None, reasons))),
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
            "mean": found.value,
            "low": found.ci_low if kind == "corrected" else None,
            "high": found.ci_high if kind == "corrected" else None,
            "tip": f"{shortened(row.criterion_id)}, {group.label}, {kind}: {estimate_words(found)}",
        }
        for kind, found in estimates
        if found.value is not None
    ]
