"""Decomposition of an overall difference into parts of the criteria, with the rubric's weights and uniform weights."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.statistics.rules import CRITERION, OVERALL
from gradebook.tasks.comparing.attribution import UNSCORED
from gradebook.tasks.comparing.figures import ComparedRow
from gradebook.tasks.comparing.sentences import overall_row
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.reporting.drawing.charts import draw, labels_of
from gradebook.tasks.reporting.drawing.figures import Figure, Table, table_of
from gradebook.tasks.system.number_format import signed_words

MOST_BARS = 15
NOTHING = 1e-9  # rounding error of a sum of floats
UNSEEN = 5e-4  # rounds to 0 with three digits
REST = "not explained by criteria"
ALL = "total"
BY_RUBRIC, BY_NONE = "with the rubric's weights", "with uniform weights"


@dataclass(frozen=True, slots=True)
class AddedPart:
    """Part of the difference due to one criterion. uniform_part: with uniform weights; None if unknown."""

    name: str
    part: float
    uniform_part: float | None


def part_words(part: float | None) -> str:
    """Part with its sign; a part that rounds to 0 has no minus sign."""
    return signed_words(0.0 if part is not None and abs(part) < UNSEEN else part)


def decomposition_of(rows: Sequence[ComparedRow], figures: Sequence[Row], place: int) -> Figure | None:
    """Draw the parts of the overall difference, largest loss first; None if the rubrics differ or no part is known.

    figures: rows of the mart `run_comparisons` for the same two models.
    """
    overall = overall_row(rows)
    if overall is None or overall.figures.mean_diff is None:
        return None
    parts = added_parts(figures, overall.figures.mean_diff)
    if not parts:
        return None
    bars = _bars(parts)
    labels = labels_of(bar.name for bar in bars)
    svg = draw(
        "decomposition",
        {"rows": [mark for bar in bars for mark in _marks(bar, labels[bar.name])]},
        names=list(labels.values()),
        height=26 * len(bars),
    )
    title = "Parts of the overall difference"
    return Figure(
        f"parts-{place}", title, _reading(parts, bars[-1]), svg, _table(f"{title}: {overall.pair_name}", parts)
    )


def added_parts(figures: Sequence[Row], difference: float) -> tuple[AddedPart, ...]:
    """Parts from these rows of the mart, largest loss first, the remainder last. They add up to the difference."""
    of_criteria = [row for row in figures if row["scope"] == CRITERION and row["part"] is not None]
    parts = [AddedPart(row["scope_id"], row["part"], row["uniform_part"]) for row in of_criteria]
    parts.sort(key=lambda part: part.part)
    left_over = next((row for row in figures if row["scope"] == OVERALL and row["part"] is not None), None)
    if left_over is not None and max(abs(left_over["part"]), abs(left_over["uniform_part"] or 0.0)) > NOTHING:
        parts.append(AddedPart(UNSCORED, left_over["part"], left_over["uniform_part"]))
    rest = difference - sum(part.part for part in parts)
    if parts and abs(rest) > NOTHING:
        parts.append(AddedPart(REST, rest, None))
    return tuple(parts)


def _bars(parts: Sequence[AddedPart]) -> list[AddedPart]:
    """The largest parts, one bar for all others, and the sum."""
    widest = sorted(parts, key=lambda part: -abs(part.part))[:MOST_BARS]
    bars = [part for part in parts if part in widest]
    others = [part for part in parts if part not in widest]
    if others:
        bars.append(_together(counted(len(others), "other"), others))
    return [*bars, _together(ALL, parts)]


def _together(name: str, parts: Sequence[AddedPart]) -> AddedPart:
    known = [part.uniform_part for part in parts if part.uniform_part is not None]
    uniform = sum(known) if len(known) == len(parts) else None
    return AddedPart(name, sum(part.part for part in parts), uniform)


def _marks(bar: AddedPart, label: str) -> Iterator[Row]:
    for weights, part in ((BY_RUBRIC, bar.part), (BY_NONE, bar.uniform_part)):
        if part is not None:
            kind = "sum" if bar.name == ALL else "loss" if part < 0 else "gain"
            words = part_words(part)
            tip = f"{label}: {words} {weights}"
            yield {"name": label, "weights": weights, "part": part, "kind": kind, "words": words, "tip": tip}


def _table(caption: str, parts: Sequence[AddedPart]) -> Table:
    return table_of(
        caption,
        ("Criterion",),
        (BY_RUBRIC.capitalize(), BY_NONE.capitalize()),
        ((part.name, part_words(part.part), part_words(part.uniform_part)) for part in (*parts, _together(ALL, parts))),
    )


def _reading(parts: Sequence[AddedPart], whole: AddedPart) -> str:
    """Sentence with the difference, its largest loss and gain, and the difference with uniform weights."""
    named = [part for part in parts if part.name not in (UNSCORED, REST)] or parts
    lowest, highest = (choose(named, key=lambda part: part.part) for choose in (min, max))
    sentence = f"The overall difference of {part_words(whole.part)} is the sum of {counted(len(parts), 'part')}"
    words = [f"the largest loss is from {lowest.name} ({signed_words(lowest.part)})"] if lowest.part < -UNSEEN else []
    words += (
        [f"the largest gain is from {highest.name} ({signed_words(highest.part)})"] if highest.part > UNSEEN else []
    )
    sentence += f": {' and '.join(words)}." if words else "."
    if whole.uniform_part is None:
        sentence += " The difference with uniform weights is unknown: some outputs have no uniform score."
    else:
        sentence += f" With uniform weights the difference would be {part_words(whole.uniform_part)}."
    if any(part.name == UNSCORED for part in parts):
        sentence += f" {UNSCORED} is the part due to verdicts that are missing on one side."
    return sentence
