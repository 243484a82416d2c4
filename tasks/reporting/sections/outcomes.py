"""Section "Outcomes": outcomes in use, compared with the scores."""

from collections.abc import Sequence
from dataclasses import dataclass

from gradebook.rubrics.files.versions import rubric_from_body
from gradebook.rubrics.statistics.significance import Chance, chance_of_interval
from gradebook.rubrics.text.tables import Table, table_of
from gradebook.rubrics.text.wording import difference_interval_words, rate_words, signed_words
from gradebook.tasks.agreement.outcomes import LIMITS, OutcomeFollowing, cells_of, outcomes_of
from gradebook.tasks.reporting.report_source import ReportSource

MOST_OUTCOMES = 20  # outcomes and models, each a table


@dataclass(frozen=True, slots=True)
class OutcomesContents:
    """Contents of the section. sentences: on each outcome and model."""

    sentences: tuple[str, ...]
    limits: str
    tables: tuple[Table, ...]


def read_outcomes_section(source: ReportSource) -> OutcomesContents | None:
    """Read the outcomes of the run's outputs, cases and days; None without any."""
    if source.rubric_body is None:
        return None
    outcomes = outcomes_of(source.connection, source.run_id, rubric_from_body(source.rubric_body))[:MOST_OUTCOMES]
    if not outcomes:
        return None
    return OutcomesContents(tuple(map(_sentence, outcomes)), LIMITS, tuple(_tables(outcomes)))


def _sentence(outcome: OutcomeFollowing) -> str:
    """Sentence on the overall score, or the first of the rows."""
    row = outcome.rows[0]
    subject = f"{outcome.name} by {outcome.grain}, {outcome.model}"
    if row.spearman is None:
        return f"{subject}: the scores or the outcome do not vary."
    way = chance_of_interval(row.spearman_low, row.spearman_high)
    is_right = (way is Chance.ABOVE) == outcome.is_higher_better
    phrases = {Chance.WITHIN: "the score does not follow it beyond chance", Chance.UNKNOWN: "too few cases to say"}
    phrase = phrases.get(way) or ("the score follows it" if is_right else "the score goes against it")
    interval = difference_interval_words(row.spearman_low, row.spearman_high)
    sentence = f"{subject}: {phrase} (Spearman {signed_words(row.spearman)}, {interval})"
    if outcome.r2_fit is not None and outcome.r2_now is not None:
        sentence += (
            f"; the score explains {rate_words(outcome.r2_now)} of it, suggested weights {rate_words(outcome.r2_fit)}"
        )
    return f"{sentence}."


def _tables(outcomes: Sequence[OutcomeFollowing]) -> list[Table]:
    headings = ("Spearman", "95% interval", "Pearson", "Weight", "Suggested", "Cases")
    return [
        table_of(
            f"{outcome.name} by {outcome.grain}: {outcome.model}", ("Score",), headings, map(cells_of, outcome.rows)
        )
        for outcome in outcomes
    ]
