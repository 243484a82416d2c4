"""Error map: which errors steps have, how grave they are, and where in the trajectory they stand."""

from collections import Counter
from collections.abc import Sequence

from markupsafe import Markup

from gradebook.rubrics.model.counts import counted
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.reporting.drawing.charts import distinct_labels, draw
from gradebook.tasks.reporting.drawing.figures import Figure, table_of
from gradebook.tasks.system.number_format import rate_words

MOST_DRAWN = 12  # kinds of error, the most frequent ones
MOST_PLACES = 12  # columns of steps
WHO = {"judge": "the judge", "people": "people"}
Kind = tuple[str, str | None]


def error_figure(source: str, rows: Sequence[Row]) -> Figure | None:
    """Errors by kind (rows) and step (columns), with severities in the table. source: who marked them."""
    if not rows:
        return None
    counts, severities = Counter[Kind](), Counter[tuple[Kind, str]]()
    for row in rows:
        kind = (row["error_type"], row["error_subtype"])
        counts[kind] += row["mark_count"]
        severities[kind, row["severity"] or "none"] += row["mark_count"]
    kinds = [kind for kind, _ in counts.most_common()]
    names = list(dict.fromkeys(row["severity"] or "none" for row in rows))
    table = table_of(
        f"Errors of steps, marked by {WHO[source]}",
        ("Type", "Subtype"),
        ("Steps", *(f"Severity {name}" for name in names), "First step", "Last step"),
        (_cells(rows, kind, [counts[kind], *(severities[kind, name] for name in names)]) for kind in kinds),
    )
    total, first = counts.total(), kinds[0]
    reading = (
        f"{WHO[source].capitalize()} marked {counted(total, 'step')} below the best label; most often "
        f"{' / '.join(word for word in first if word)}: {counts[first]:,} ({rate_words(counts[first] / total)})."
    )
    return Figure(f"agent-errors-{source}", f"Errors of steps, by {WHO[source]}", reading, _drawn(rows, kinds), table)


def _cells(rows: Sequence[Row], kind: Kind, numbers: Sequence[int]) -> tuple[str, ...]:
    steps = [row["step_index"] for row in rows if (row["error_type"], row["error_subtype"]) == kind]
    return (kind[0], kind[1] or "", *(f"{number:,}" for number in (*numbers, min(steps), max(steps))))


def _drawn(rows: Sequence[Row], kinds: Sequence[Kind]) -> Markup:
    shown = kinds[:MOST_DRAWN]
    labels = dict(zip(shown, distinct_labels(" / ".join(word for word in kind if word) for kind in shown), strict=True))
    width = -(-(max(row["step_index"] for row in rows) + 1) // MOST_PLACES)
    cells = Counter[tuple[Kind, int]]()
    for row in rows:
        cells[(row["error_type"], row["error_subtype"]), row["step_index"] // width] += row["mark_count"]
    places = {place: _place(place, width) for place in range(max(place for _, place in cells) + 1)}
    marks = [
        {"kind": labels[kind], "place": words, "count": cells[kind, place]}
        | {"tip": f"{labels[kind]}, step {words}: {counted(cells[kind, place], 'mark')}"}
        for kind in shown
        for place, words in places.items()
    ]
    return draw(
        "error_map",
        {"rows": marks},
        kinds=list(labels.values()),
        places=list(places.values()),
        most=max(1, *cells.values()),
        height=24 * len(shown),
    )


def _place(place: int, width: int) -> str:
    return str(place) if width == 1 else f"{place * width}–{place * width + width - 1}"
