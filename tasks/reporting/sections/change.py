"""Section "What changed": difference from the run compared with, its parts, forest of intervals."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradebook.rubrics.statistics.rules import CATEGORY, CRITERION, OVERALL
from gradebook.rubrics.text.tables import Table, pick_columns, table_from, table_of
from gradebook.rubrics.text.wording import counted, difference_interval_words, score_words, signed_words
from gradebook.tasks.comparing.attribution import UNSCORED
from gradebook.tasks.comparing.figures import ComparedRow, overall_row, worst_first
from gradebook.tasks.comparing.gate import GateFinding
from gradebook.tasks.comparing.run_comparison import RunComparison
from gradebook.tasks.comparing.sentences import (
    COMPARED,
    case_sentences,
    caution_sentences,
    direction_words,
    imbalance_sentences,
    improvement_sentence,
    left_out_sentences,
    outcome_sentences,
    outcome_word,
    regression_sentence,
    row_name,
    unchanged_sentence,
)
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.reporting.charts import Figure, cases_link, draw, labels_of
from gradebook.tasks.reporting.report_source import MOST_DRAWN, ReportSource

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


def decomposition_of(rows: Sequence[ComparedRow], figures: Sequence[Row], number: int) -> Figure | None:
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
        f"parts-{number}", title, _parts_sentence(parts, bars[-1]), svg, _table(f"{title}: {overall.pair_name}", parts)
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
    uniform_parts = [part.uniform_part for part in parts if part.uniform_part is not None]
    uniform = sum(uniform_parts) if len(uniform_parts) == len(parts) else None
    return AddedPart(name, sum(part.part for part in parts), uniform)


def _marks(bar: AddedPart, label: str) -> Iterator[Row]:
    for weights, part in ((BY_RUBRIC, bar.part), (BY_NONE, bar.uniform_part)):
        if part is not None:
            kind = "sum" if bar.name == ALL else "loss" if part < 0 else "gain"
            text = part_words(part)
            tip = f"{label}: {text} {weights}"
            yield {"name": label, "weights": weights, "part": part, "kind": kind, "words": text, "tip": tip}


def _table(caption: str, parts: Sequence[AddedPart]) -> Table:
    return table_of(
        caption,
        ("Criterion",),
        (BY_RUBRIC.capitalize(), BY_NONE.capitalize()),
        ((part.name, part_words(part.part), part_words(part.uniform_part)) for part in (*parts, _together(ALL, parts))),
    )


def _parts_sentence(parts: Sequence[AddedPart], whole: AddedPart) -> str:
    """Sentence with the difference, its largest loss and gain, and the difference with uniform weights."""
    of_criteria = [part for part in parts if part.name not in (UNSCORED, REST)] or parts
    lowest, highest = (choose(of_criteria, key=lambda part: part.part) for choose in (min, max))
    sentence = f"The overall difference of {part_words(whole.part)} is the sum of {counted(len(parts), 'part')}"
    extremes = (
        [f"the largest loss is from {lowest.name} ({signed_words(lowest.part)})"] if lowest.part < -UNSEEN else []
    )
    extremes += (
        [f"the largest gain is from {highest.name} ({signed_words(highest.part)})"] if highest.part > UNSEEN else []
    )
    sentence += f": {' and '.join(extremes)}." if extremes else "."
    if whole.uniform_part is None:
        sentence += " The difference with uniform weights is unknown: some outputs have no uniform score."
    else:
        sentence += f" With uniform weights the difference would be {part_words(whole.uniform_part)}."
    if any(part.name == UNSCORED for part in parts):
        sentence += f" {UNSCORED} is the part due to verdicts that are missing on one side."
    return sentence


MOST_ROWS = 20


def forest_of(rows: Sequence[ComparedRow], number: int) -> Figure | None:
    """Draw the overall difference and those of the criteria. rows: regressions first. None if nothing is compared."""
    compared = [row for row in rows if row.scope != CATEGORY and row.figures.mean_diff is not None]
    if not compared:
        return None
    widest = sorted(compared, key=lambda row: -abs(row.figures.mean_diff or 0.0))[:MOST_ROWS]
    drawn = [row for row in compared if row in widest or row is compared[0]]
    labels = labels_of(row_name(row) for row in drawn)
    svg = draw(
        "differences",
        {"rows": [_mark(row, labels[row_name(row)]) for row in drawn]},
        names=list(labels.values()),
        height=20 * len(drawn),
    )
    table = table_from(
        f"Differences with their intervals: {compared[0].pair_name}",
        {"Compared": row_name, "Beyond chance": outcome_word},
        pick_columns(COMPARED, "B - A", "95% interval", "p adjusted"),
        compared,
        [index for index, row in enumerate(compared) if row.is_regression],
    )
    return Figure(
        f"differences-{number}", "Differences with their 95% intervals", _forest_sentence(compared, drawn), svg, table
    )


def _mark(row: ComparedRow, label: str) -> Row:
    figures = row.figures
    interval = difference_interval_words(figures.diff_low, figures.diff_high)
    tip = f"{label}: {signed_words(figures.mean_diff)}, 95% interval {interval}"
    sentence = f"{outcome_word(row)} beyond chance" if row.outcome.is_beyond else "may be chance"
    return {
        "name": label,
        "difference": figures.mean_diff,
        "low": figures.diff_low,
        "high": figures.diff_high,
        "verdict": sentence,
        "href": cases_link(criterion=row.scope_id if row.scope == CRITERION else ""),
        "tip": f"{tip}; {sentence}",
    }


def _forest_sentence(compared: Sequence[ComparedRow], drawn: Sequence[ComparedRow]) -> str:
    """Sentence with the largest fall and rise, and the number of differences beyond chance."""
    criteria = [row for row in compared if row.scope != OVERALL] or compared
    low, high = (choose(criteria, key=lambda row: row.figures.mean_diff or 0.0) for choose in (min, max))
    extremes = [f"{low.name} fell most, by {_by(low)}"] if (low.figures.mean_diff or 0.0) < 0 else []
    extremes += [f"{high.name} rose most, by {_by(high)}"] if (high.figures.mean_diff or 0.0) > 0 else []
    beyond = sum(row.outcome.is_beyond for row in compared)
    more = len(compared) - len(drawn)
    hidden = f" The table has {more:,} more, with smaller differences." if more else ""
    change = " and ".join(extremes) or "No mean fell or rose"
    verb = "is" if beyond == 1 else "are"
    return f"{change}; {beyond:,} of {counted(len(compared), 'difference')} {verb} beyond chance.{hidden}"


def _by(row: ComparedRow) -> str:
    figures = row.figures
    text = score_words(abs(figures.mean_diff or 0.0))
    if figures.diff_low is None:
        return text
    return f"{text} (95% interval {difference_interval_words(figures.diff_low, figures.diff_high)})"


_MEANS = ("A", "B", "B - A", "95% interval", "p adjusted")
MOST_CAUTIONS = 3  # shown with the table; a longer list is behind a click
ALIKE = "Only cases with an answer on both sides are compared, on criteria with the same text on both sides."


@dataclass(frozen=True, slots=True)
class ChangedPair:
    """Comparison of two models. worse, better: sentences on changes beyond chance; unchanged: sentence without any.

    sentences: facts that are not in the table. cautions: warnings about rough or conflicting figures, if too many to
    show among the sentences. figures: empty if enough pairs are drawn already, or nothing is compared.
    """

    name: str
    worse: str | None
    better: str | None
    unchanged: str | None
    table: Table
    sentences: tuple[str, ...]
    cautions: tuple[str, ...]
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class ChangeContents:
    """Contents of the section. sides: sentence that names sides A and B; None if there is no comparison.

    fault: reason why the run's own models can't be compared. undrawn: sentence on the number of pairs without pictures.
    """

    sides: str | None
    fault: str | None
    gate: GateFinding | None
    pairs: tuple[ChangedPair, ...]
    undrawn: str | None


def read_change(source: ReportSource) -> ChangeContents:
    """Read the comparison; without one, the contents have only the reason."""
    comparison = source.comparison
    if comparison is None:
        return ChangeContents(None, source.comparison_fault, None, (), None)
    figures = _figures_by_pair(comparison)
    pairs = tuple(
        _changed(pair.name, pair.rows, figures.get(_names_of(pair.rows), ()), number)
        for number, pair in enumerate(comparison.models, start=1)
    )
    more = len(pairs) - MOST_DRAWN
    undrawn = f"The last {counted(more, 'pair')} of models have no pictures." if more > 0 else None
    return ChangeContents(_sides_of(source, comparison), None, comparison.gate, pairs, undrawn)


def _changed(name: str, rows: tuple[ComparedRow, ...], figures: tuple[Row, ...], number: int) -> ChangedPair:
    """Make the contents of a pair of models. place: number of the pair from 1, part of its pictures' ids."""
    ordered = worst_first(rows)
    worse, better = regression_sentence(rows), improvement_sentence(rows)
    unchanged = None if worse or better else unchanged_sentence(rows)
    drawn = (forest_of(ordered, number), decomposition_of(rows, figures, number)) if number <= MOST_DRAWN else ()
    cautions = tuple(caution_sentences(ordered))
    shown_cautions = cautions if len(cautions) <= MOST_CAUTIONS else ()
    of_missing = (*left_out_sentences(rows), *imbalance_sentences(rows))
    sentences = (*of_missing, *outcome_sentences(rows), *case_sentences(rows), *shown_cautions)
    flagged = [index for index, row in enumerate(ordered) if row.is_regression]
    return ChangedPair(
        name,
        worse,
        better,
        unchanged,
        table_from(
            f"{name}: regressions first",
            {"Compared": row_name, "Beyond chance": _outcome_words},
            pick_columns(COMPARED, *_MEANS, *direction_words(rows), "Tied", "Pairs", "Detectable"),
            ordered,
            flagged,
        ),
        tuple(sentence for sentence in sentences if sentence not in (unchanged or "")),
        () if cautions == shown_cautions else cautions,
        tuple(figure for figure in drawn if figure is not None),
    )


def _outcome_words(row: ComparedRow) -> str:
    return f"{outcome_word(row)} (rough)" if row.caution else outcome_word(row)


def _sides_of(source: ReportSource, comparison: RunComparison) -> str:
    """Sentence that names sides A and B."""
    other = comparison.baseline_run_id
    if other == comparison.run_id:
        a, b = _names_of(comparison.models[0].rows)
        which = "the two models" if len(source.groups) == 2 else "the two models with the highest means"
        return f"A is {a} and B is {b}: {which} of this run. {ALIKE}"
    if source.is_against:
        return f"A is run {other}, named by --against, and B is this run. {ALIKE}"
    return f"A is the baseline, run {other}, and B is this run. {ALIKE}"


def _figures_by_pair(comparison: RunComparison) -> dict[tuple[str, str], tuple[Row, ...]]:
    """Rows of the mart by the names of models A and B."""
    rows_by_names: dict[tuple[str, str], list[Row]] = {}
    for row in comparison.figures:
        a = model_name({"model": row["baseline_model"], "checkpoint": row["baseline_checkpoint"]})
        rows_by_names.setdefault((a, model_name(row)), []).append(row)
    return {names: tuple(rows) for names, rows in rows_by_names.items()}


def _names_of(rows: tuple[ComparedRow, ...]) -> tuple[str, str]:
    return (rows[0].model_a, rows[0].model_b) if rows else ("", "")
