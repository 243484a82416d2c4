"""Section "What changed": the run against its baseline or another run, or the run's two best models."""

from dataclasses import dataclass

from gradebook.rubrics.model.counts import counted
from gradebook.tasks.comparing.figures import ComparedRow, worst_first
from gradebook.tasks.comparing.gate import GateFinding
from gradebook.tasks.comparing.run_comparison import RunComparison
from gradebook.tasks.comparing.sentences import (
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
from gradebook.tasks.reporting.drawing.figures import Figure, Table, table_of
from gradebook.tasks.reporting.sections.change.decomposition import decomposition_of
from gradebook.tasks.reporting.sections.change.forest import forest_of
from gradebook.tasks.reporting.source.report_source import MOST_DRAWN, ReportSource
from gradebook.tasks.system.number_format import difference_interval_words, p_words, score_words, signed_words

WORDS = ("Compared", "Beyond chance")
NUMBERS = ("A", "B", "B - A", "95% interval", "p adjusted", "{0}", "{1}", "Tied", "Pairs", "Detectable")
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
        _changed(pair.name, pair.rows, figures.get(_names_of(pair.rows), ()), place)
        for place, pair in enumerate(comparison.models, start=1)
    )
    more = len(pairs) - MOST_DRAWN
    undrawn = f"The last {counted(more, 'pair')} of models have no pictures." if more > 0 else None
    return ChangeContents(_sides_of(source, comparison), None, comparison.gate, pairs, undrawn)


def _changed(name: str, rows: tuple[ComparedRow, ...], figures: tuple[Row, ...], place: int) -> ChangedPair:
    """Make the contents of a pair of models. place: number of the pair from 1, part of its pictures' ids."""
    ordered = worst_first(rows)
    worse, better = regression_sentence(rows), improvement_sentence(rows)
    unchanged = None if worse or better else unchanged_sentence(rows)
    drawn = (forest_of(ordered, place), decomposition_of(rows, figures, place)) if place <= MOST_DRAWN else ()
    cautions = tuple(caution_sentences(ordered))
    shown = cautions if len(cautions) <= MOST_CAUTIONS else ()
    of_missing = (*left_out_sentences(rows), *imbalance_sentences(rows))
    sentences = (*of_missing, *outcome_sentences(rows), *case_sentences(rows), *shown)
    flagged = [index for index, row in enumerate(ordered) if row.is_regression]
    return ChangedPair(
        name,
        worse,
        better,
        unchanged,
        table_of(f"{name}: regressions first", WORDS, _numbers(rows), map(_cells, ordered), flagged),
        tuple(sentence for sentence in sentences if sentence not in (unchanged or "")),
        () if cautions == shown else cautions,
        tuple(figure for figure in drawn if figure is not None),
    )


def _numbers(rows: tuple[ComparedRow, ...]) -> tuple[str, ...]:
    return tuple(heading.format(*direction_words(rows)) for heading in NUMBERS)


def _cells(row: ComparedRow) -> tuple[str, ...]:
    found = row.figures
    return (
        row_name(row),
        f"{outcome_word(row)} (rough)" if row.caution else outcome_word(row),
        score_words(found.mean_a),
        score_words(found.mean_b),
        signed_words(found.mean_diff),
        difference_interval_words(found.diff_low, found.diff_high),
        p_words(row.chance),
        *(f"{count:,}" for count in (found.better_count, found.worse_count, found.tied_count, found.n)),
        score_words(found.detectable_diff),
    )


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
    found: dict[tuple[str, str], list[Row]] = {}
    for row in comparison.figures:
        a = model_name({"model": row["baseline_model"], "checkpoint": row["baseline_checkpoint"]})
        found.setdefault((a, model_name(row)), []).append(row)
    return {names: tuple(rows) for names, rows in found.items()}


def _names_of(rows: tuple[ComparedRow, ...]) -> tuple[str, str]:
    return (rows[0].model_a, rows[0].model_b) if rows else ("", "")
