"""Section "Outcomes": what happened in use, beside the scores."""

from collections.abc import Sequence
from dataclasses import dataclass

from gradebook.rubrics.files.digest import rubric_from_body
from gradebook.rubrics.statistics.chance import Chance, chance_of_interval
from gradebook.rubrics.text.tables import Table, table_of
from gradebook.tasks.agreement.outcomes import LIMITS, OutcomeFollowing, cells_of, outcomes_of
from gradebook.tasks.reporting.source.report_source import ReportSource
from gradebook.tasks.system.number_format import difference_interval_words, rate_words, signed_words

MOST_OUTCOMES = 20  # outcomes and models, each a table


@dataclass(frozen=True, slots=True)
class OutcomesContents:
    """Contents of the section. readings: sentences on each outcome and model."""

    readings: tuple[str, ...]
    limits: str
    tables: tuple[Table, ...]


def read_outcomes_section(source: ReportSource) -> OutcomesContents | None:
    """Read the outcomes of the run's outputs, cases and days; None without any."""
    if source.rubric_body is None:
        return None
    found = outcomes_of(source.connection, source.run_id, rubric_from_body(source.rubric_body))[:MOST_OUTCOMES]
    if not found:
        return None
    return OutcomesContents(tuple(map(_reading, found)), LIMITS, tuple(_tables(found)))


def _reading(found: OutcomeFollowing) -> str:
    """Sentence on the overall score, or the first of the rows."""
    row = found.rows[0]
    named = f"{found.name} by {found.grain}, {found.model}"
    if row.spearman is None:
        return f"{named}: the scores or the outcome do not vary."
    way = chance_of_interval(row.spearman_low, row.spearman_high)
    is_right = (way is Chance.ABOVE) == found.is_higher_better
    words = {Chance.WITHIN: "the score does not follow it beyond chance", Chance.UNKNOWN: "too few cases to say"}
    said = words.get(way) or ("the score follows it" if is_right else "the score goes against it")
    interval = difference_interval_words(row.spearman_low, row.spearman_high)
    sentence = f"{named}: {said} (Spearman {signed_words(row.spearman)}, {interval})"
    if found.r2_fit is not None and found.r2_now is not None:
        sentence += (
            f"; the score explains {rate_words(found.r2_now)} of it, suggested weights {rate_words(found.r2_fit)}"
        )
    return f"{sentence}."


def _tables(found: Sequence[OutcomeFollowing]) -> list[Table]:
    headings = ("Spearman", "95% interval", "Pearson", "Weight", "Suggested", "Cases")
    return [
        table_of(f"{each.name} by {each.grain}: {each.model}", ("Score",), headings, map(cells_of, each.rows))
        for each in found
    ]
