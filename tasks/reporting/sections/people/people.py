"""Section "Judge and people": agreement of the judge with people, with itself and with other judges."""

from dataclasses import dataclass

from gradebook.rubrics.model.counts import counted
from gradebook.tasks.agreement.mart import JUDGE_RATERS, RATERS
from gradebook.tasks.reporting.drawing.figures import Figure, Table
from gradebook.tasks.reporting.sections.people.agreement import (
    CurrentAgreement,
    agreement_table,
    bias_figure,
    rates_figure,
    read_agreement,
)
from gradebook.tasks.reporting.sections.people.confusion import MOST_DRAWN, confusion_figures
from gradebook.tasks.reporting.sections.people.corrected_means import means_figure, means_table
from gradebook.tasks.reporting.sections.people.opinions import noise_figures, noise_table
from gradebook.tasks.reporting.sections.people.overall import overall_table
from gradebook.tasks.reporting.sections.people.preferences import preference_table
from gradebook.tasks.reporting.sections.people.raters import rater_tables
from gradebook.tasks.reporting.sections.people.study import study_tables
from gradebook.tasks.reporting.source.report_source import ReportSource

_RATED = """
select count(distinct rater) as rater_count, count(*) as rating_count, count(distinct output_id) as output_count,
    count(distinct criterion_id) as criterion_count
from latest_ratings
"""


@dataclass(frozen=True, slots=True)
class PeopleContents:
    """Contents of the section. sentences: the ratings behind it, and their limits.

    tables: tables without a picture. calibration_fault: reason if no mean could be corrected, else None.
    """

    sentences: tuple[str, ...]
    agreement_figures: tuple[Figure, ...]
    means_figure: Figure | None
    noise_figures: tuple[Figure, ...]
    tables: tuple[Table, ...]
    calibration_fault: str | None


def read_people(source: ReportSource) -> PeopleContents | None:
    """Read the current agreement; None without ratings and with one opinion of each output."""
    agreement, means = read_agreement(source), source.summary.means
    noise, fault = source.summary.noise, source.summary.calibration_fault
    overall = overall_table(source)
    preferences = source.summary.preferences
    if not (agreement.parts or means or noise or fault or overall or preferences or source.summary.offered):
        return None
    table, means_drawn = agreement_table(agreement), means_figure(source, means)
    figures = _agreement_figures(source, agreement, table)
    tables = (
        *([table] if agreement.parts and not figures else []),
        *([means_table(means)] if means and means_drawn is None else []),
        *([noise_table(noise)] if noise else []),
        *([overall] if overall else []),
        *([preference_table(preferences)] if preferences else []),
        *rater_tables(source),
        *study_tables(source),
    )
    sentences = tuple(_rating_sentences(source, agreement))
    return PeopleContents(sentences, figures, means_drawn, noise_figures(source), tables, fault)


def _agreement_figures(source: ReportSource, agreement: CurrentAgreement, table: Table) -> tuple[Figure, ...]:
    figures = (rates_figure(agreement, table), bias_figure(agreement, table), *confusion_figures(source, agreement))
    return tuple(figure for figure in figures if figure is not None)


def _rating_sentences(source: ReportSource, agreement: CurrentAgreement) -> list[str]:
    """Sentences with the counts of ratings, and what the section can't show."""
    offered = source.summary.offered
    others = [f"{offered[0].upper()}{offered[1:]}."] if offered else []
    if not (agreement.together(JUDGE_RATERS) or agreement.together(RATERS)):
        return others
    (rated,) = source.rows(_RATED)
    raters = counted(rated["rater_count"], "person", "people")
    outputs = f"{rated['output_count']:,} of the {counted(source.summary.run['output_count'], 'output')}"
    criteria = counted(rated["criterion_count"], "criterion", "criteria")
    sentences = [f"{raters} gave {counted(rated['rating_count'], 'rating')} of {outputs}, on {criteria}."]
    if agreement.note:
        sentences.append(f"{agreement.note[0].upper()}{agreement.note[1:]}.")
    if not agreement.together(JUDGE_RATERS):
        sentences.append("No rated output has a verdict from another source, so nothing is compared with people.")
    drawable = sum(bool(part.confusion) for part in agreement.together(JUDGE_RATERS))
    if drawable > MOST_DRAWN:
        sentences.append(f"Levels are drawn for the {MOST_DRAWN} of {drawable:,} criteria with the least agreement.")
    if not agreement.is_as_published:
        sentences.append(
            "Ratings changed since the run was published: this section uses the ratings now in the lake, while the "
            "published table agreement has the figures of that time."
        )
    return [*sentences, *others]
