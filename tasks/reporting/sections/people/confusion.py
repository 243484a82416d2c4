"""Confusion matrices: levels of the judge by levels of people, one per criterion."""

from collections.abc import Iterator

from gradebook.rubrics.model.counts import counted
from gradebook.tasks.agreement.mart import JUDGE_RATERS
from gradebook.tasks.agreement.published_run import AgreementPart
from gradebook.tasks.reporting.drawing.charts import distinct_labels, draw
from gradebook.tasks.reporting.drawing.figures import Figure, table_of
from gradebook.tasks.reporting.sections.people.agreement import CurrentAgreement
from gradebook.tasks.reporting.source.report_source import ReportSource
from gradebook.tasks.system.number_format import rate_words

MOST_DRAWN = 6  # criteria with the least agreement
MOST_UPRIGHT = 4  # levels with horizontal names; more have slanted names
WIDTH = 220.0  # of all cells of a picture


def confusion_figures(source: ReportSource, agreement: CurrentAgreement) -> tuple[Figure, ...]:
    """Draw a matrix for each criterion with levels from the judge and from people, least agreement first."""
    drawn = [part for part in agreement.together(JUDGE_RATERS) if part.confusion][:MOST_DRAWN]
    return tuple(
        _figure(source, part, place, is_penalty=part.criterion_id in agreement.penalties)
        for place, part in enumerate(drawn, start=1)
    )


def _figure(source: ReportSource, part: AgreementPart, place: int, *, is_penalty: bool) -> Figure:
    names = level_names(source, part)
    labels = distinct_labels(names)
    cells = list(_cells(part))
    rows = [
        {"judge": labels[own], "people": labels[other], "count": count, "same": own == other}
        | {"tip": f"judge {labels[own]}, people {labels[other]}: {counted(count, 'pair')}"}
        for own, other, count in cells
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
        ((names[own], names[other], f"{count:,}") for own, other, count in cells),
    )
    title = f"{part.criterion_id}: the judge's level by people's"
    return Figure(f"people-levels-{place}", title, _reading(part, names, is_penalty=is_penalty), svg, numbers)


def _cells(part: AgreementPart) -> Iterator[tuple[int, int, int]]:
    """Index of the judge's level, index of people's level, and the count of such pairs."""
    for own, counts in enumerate(part.confusion):
        for other, count in enumerate(counts):
            yield own, other, count


def _reading(part: AgreementPart, names: list[str], *, is_penalty: bool) -> str:
    cells = list(_cells(part))
    total = sum(count for _, _, count in cells)
    same = sum(count for own, other, count in cells if own == other)
    better = sum(count for own, other, count in cells if own != other and (own > other) != is_penalty)
    words = f"The same level in {same:,} of {counted(total, 'pair')} ({rate_words(same / total)})"
    if same == total:
        return f"{words}."
    own, other, count = max((cell for cell in cells if cell[0] != cell[1]), key=lambda cell: cell[2])
    worse = total - same - better
    return (
        f"{words}; the judge gave the better level in {better:,}, the worse level in {worse:,}. "
        f"Most frequent difference: judge {names[own]}, people {names[other]} ({counted(count, 'time')})."
    )


def level_names(source: ReportSource, part: AgreementPart) -> list[str]:
    """Names of a part's levels, lowest score first; the score in place of a name that the rubric does not give."""
    named: dict[float, list[str]] = {}
    for row in source.levels:
        if row["criterion_id"] == part.criterion_id:
            named.setdefault(row["score"], []).append(row["label"] or row["level_id"])
    return [" / ".join(named.get(score, [f"{score:.3g}"])) for score in part.levels]
