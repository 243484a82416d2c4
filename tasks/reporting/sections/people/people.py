"""The judge beside people and beside itself."""

from dataclasses import dataclass

from gradebook.tasks.agreement.mart import JUDGE_RATERS, RATERS
from gradebook.tasks.reporting.drawing.figures import Figure, Table
from gradebook.tasks.reporting.sections.people.agreement import (
    HeldAgreement,
    agreement_table,
    bias_figure,
    rates_figure,
    read_agreement,
)
from gradebook.tasks.reporting.sections.people.confusion import MOST_DRAWN, confusion_figures
from gradebook.tasks.reporting.sections.people.corrected_means import means_figure, means_table
from gradebook.tasks.reporting.sections.people.opinions import noise_figures, noise_table
from gradebook.tasks.reporting.source.report_source import ReportSource
from gradebook.tasks.system.number_format import counted

_RATED = """
select count(distinct rater) as rater_count, count(*) as rating_count, count(distinct output_id) as output_count,
    count(distinct criterion_id) as criterion_count
from latest_ratings
"""


@dataclass(frozen=True, slots=True)
class PeopleContents:
    """What people said beside the judge, and judges beside one another. told: sentences on what it all rests on.

    tables: those that no picture has behind it; calibration_fault: why no means are corrected, if so.
    """

    told: tuple[str, ...]
    agreement_figures: tuple[Figure, ...]
    means_figure: Figure | None
    noise_figures: tuple[Figure, ...]
    tables: tuple[Table, ...]
    calibration_fault: str | None


def read_people(source: ReportSource) -> PeopleContents | None:
    """All that the lake holds now; None where nobody rated and the judge was asked once."""
    held, means = read_agreement(source), source.summary.means
    noise, fault = source.summary.noise, source.summary.calibration_fault
    if not (held.parts or means or noise or fault):
        return None
    agreement, means_drawn = agreement_table(held), means_figure(source, means)
    figures = _agreement_figures(source, held, agreement)
    tables = (
        *([agreement] if held.parts and not figures else []),
        *([means_table(means)] if means and means_drawn is None else []),
        *([noise_table(noise)] if noise else []),
    )
    return PeopleContents(tuple(_told(source, held)), figures, means_drawn, noise_figures(source), tables, fault)


def _agreement_figures(source: ReportSource, held: HeldAgreement, table: Table) -> tuple[Figure, ...]:
    figures = (rates_figure(held, table), bias_figure(held, table), *confusion_figures(source, held))
    return tuple(figure for figure in figures if figure is not None)


def _told(source: ReportSource, held: HeldAgreement) -> list[str]:
    """Whose ratings these are, and what they do not tell."""
    if not (held.together(JUDGE_RATERS) or held.together(RATERS)):
        return []
    (rated,) = source.rows(_RATED)
    raters = counted(rated["rater_count"], "person", "people")
    outputs = f"{rated['output_count']:,} of the {counted(source.summary.run['output_count'], 'output')}"
    criteria = counted(rated["criterion_count"], "criterion", "criteria")
    sentences = [f"{raters} gave {counted(rated['rating_count'], 'rating')} of {outputs}, on {criteria}."]
    if not held.together(JUDGE_RATERS):
        sentences.append("None of them is of what the run scored by other means: nothing is held against people here.")
    drawable = sum(bool(part.confusion) for part in held.together(JUDGE_RATERS))
    if drawable > MOST_DRAWN:
        sentences.append(f"Levels are drawn of the {MOST_DRAWN} criteria with the least agreement, of {drawable:,}.")
    if not held.is_as_published:
        sentences.append(
            "Ratings changed since the run was published: this is by those that the lake holds now, while its table "
            "agreement keeps what was known then."
        )
    return sentences
