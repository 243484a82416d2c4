"""Section "Judge and people": agreement, opinions, raters, preferences, decision study."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gradebook.rubrics.files.versions import rubric_from_body
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.scores import rating_scale
from gradebook.rubrics.statistics.agreement import Measure
from gradebook.rubrics.statistics.intervals import DIFFERENCES, mean_interval, measure_mean
from gradebook.rubrics.text.reasons import reason_words
from gradebook.rubrics.text.tables import Table, capitalised, table_of
from gradebook.rubrics.text.wording import (
    counted,
    difference_interval_words,
    interval_words,
    rate_words,
    score_words,
    signed_words,
)
from gradebook.tasks.agreement.mart import JUDGE_RATERS, RATERS
from gradebook.tasks.agreement.published_run import CriterionTrust, measure_trust
from gradebook.tasks.agreement.raters import ModelMean, RaterRow, compare_raters
from gradebook.tasks.comparing.aa_test import study_run
from gradebook.tasks.comparing.sentences import component_table, option_table
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.lake.sql import query
from gradebook.tasks.published.run_tables import (
    RELIABILITY,
    TRUST,
    is_no_better,
    judge_part,
    noise_table,
    passing_sentence,
    preference_table,
    votes_words,
)
from gradebook.tasks.ratings.export_ratings import add_sheet_scores
from gradebook.tasks.reporting.charts import Figure, draw, shortened
from gradebook.tasks.reporting.lanes import short_names
from gradebook.tasks.reporting.report_source import Group, ReportSource
from gradebook.tasks.reporting.sections.agreement import (
    MOST_DRAWN,
    CurrentAgreement,
    agreement_table,
    bias_figure,
    confusion_figures,
    means_figure,
    means_table,
    rated_words,
    rates_figure,
    read_agreement,
)

MOST_CRITERIA = 12  # in one picture
SHAPES = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "triangle-right", "triangle-left")


@dataclass(frozen=True, slots=True)
class _Rate:
    """Chart of a rate in judge_noise. is_high_bad: whether high values are bad."""

    column: str
    id: str
    title: str
    axis: str
    sentence: str  # on the worst row, with {rate}, {criterion} and {model}
    is_high_bad: bool = True


_RATES = (
    _Rate(
        "flip_rate",
        "people-flips",
        "How often the judge contradicts itself",
        "pairs of replies with different levels",
        "Highest flip rate: two replies to the same question differ in {rate} of the pairs on {criterion} of {model}",
    ),
    _Rate(
        "swap_flip_rate",
        "people-swaps",
        "How often the order of the levels decides",
        "replies with another level in reverse order",
        "Highest rate: with the levels in reverse order, the level differs in {rate} on {criterion} of {model}",
    ),
    _Rate(
        "agreement_rate",
        "people-judges",
        "How often two judges gave the same level",
        "pairs of judges with the same level",
        "Lowest rate: two judges gave the same level in {rate} of the pairs on {criterion} of {model}",
        is_high_bad=False,
    ),
    _Rate(
        "judge_part",
        "people-noise",
        "How much of the scores' variance is judge noise",
        "judge noise as a part of the variance",
        "Highest share: {rate} of the variance of single scores on {criterion} of {model} is judge noise, not a "
        "difference between outputs",
    ),
)


def noise_figures(source: ReportSource) -> tuple[Figure, ...]:
    """Draw each known rate; no figures if the judge gave one opinion of each output."""
    rows = [row | {"judge_part": judge_part(row)} for row in source.summary.noise]
    figures = (_figure(source, rate, [row for row in rows if row[rate.column] is not None]) for rate in _RATES)
    return tuple(figure for figure in figures if figure is not None)


def _figure(source: ReportSource, rate: _Rate, rows: list[Row]) -> Figure | None:
    ranked = sorted(rows, key=lambda row: (row[rate.column] * (-1 if rate.is_high_bad else 1), row["criterion_id"]))
    criteria = list(dict.fromkeys(row["criterion_id"] for row in ranked))
    drawn = [row for row in ranked if source.group_of(row) in source.drawn_groups]
    marks = [_mark(source, rate, row) for row in drawn if row["criterion_id"] in criteria[:MOST_CRITERIA]]
    if not marks:
        return None
    groups = [group for group in source.drawn_groups if any(mark["model"] == group.label for mark in marks)]
    names = list(dict.fromkeys(mark["criterion"] for mark in marks))
    svg = draw(
        "noise_rates",
        {"rows": marks},
        criteria=names,
        models=[group.label for group in groups],
        colours=[group.colour for group in groups],
        shapes=list(SHAPES[: len(groups)]),
        title=rate.axis,
        height=max(60, 26 * len(names)),
    )
    numbers = table_of(rate.title, ("Criterion", "Model"), ("Outputs", "Rate"), _numbers(rate, ranked))
    return Figure(rate.id, rate.title, _noise_sentence(rate, ranked, len(criteria)), svg, numbers)


def _numbers(rate: _Rate, rows: Sequence[Row]) -> list[tuple[str, ...]]:
    return [(row["criterion_id"], model_name(row), f"{row['n']:,}", rate_words(row[rate.column])) for row in rows]


def _mark(source: ReportSource, rate: _Rate, row: Row) -> Row:
    name, model = shortened(row["criterion_id"]), source.group_of(row).label
    tip = f"{name}, {model}: {rate_words(row[rate.column])} of {counted(row['n'], 'output')}"
    return {"criterion": name, "model": model, "rate": row[rate.column], "tip": tip}


def _noise_sentence(rate: _Rate, ranked: Sequence[Row], criterion_count: int) -> str:
    worst = ranked[0]
    sentence = rate.sentence.format(
        rate=rate_words(worst[rate.column]), criterion=worst["criterion_id"], model=model_name(worst)
    )
    votes = worst["effective_votes"] if rate.column == "agreement_rate" else None
    worth = f"; their scores go together as those of {votes_words(votes)} unrelated ones" if votes is not None else ""
    more = f" The table has {criterion_count - MOST_CRITERIA:,} more." if criterion_count > MOST_CRITERIA else ""
    return f"{sentence}{worth}.{more}"


NUMBERS = ("Outputs", "Overall rating", "Weighted score", "Difference", "95% interval", "Correlation")


def overall_table(source: ReportSource) -> Table | None:
    """Table by model of the outputs with both; None without. Reads latest_ratings, which the agreement makes."""
    rows_by_group: dict[Group, list[Row]] = {}
    for row in source.rows(query("reporting/overall_ratings"), run_id=source.run_id):
        rows_by_group.setdefault(source.group_of(row), []).append(row)
    if not rows_by_group:
        return None
    names = short_names(source.groups)
    cells = [(names[group], *_overall_cells(rows_by_group[group])) for group in source.groups if group in rows_by_group]
    return table_of("Overall ratings of people beside the weighted score", ("Model",), NUMBERS, cells)


def _overall_cells(rows: list[Row]) -> tuple[str, ...]:
    ratings, scores = (np.array([row[name] for row in rows], dtype=np.float64) for name in ("rating", "score"))
    _, cases = np.unique([row["case_id"] for row in rows], return_inverse=True)
    mean = measure_mean(scores - ratings, cases)
    interval = mean_interval(mean, bounds=DIFFERENCES)
    low, high = (None if np.isnan(end) else float(end) for end in (interval.low, interval.high))
    varies = min(np.ptp(ratings), np.ptp(scores)) > 0
    return (
        f"{len(rows):,}",
        score_words(float(ratings.mean())),
        score_words(float(scores.mean())),
        signed_words(float(mean.mean)),
        difference_interval_words(low, high),
        score_words(float(np.corrcoef(ratings, scores)[0, 1]) if varies else None),
    )


def sheet_tables(source: ReportSource) -> Iterator[Table]:
    """Table by rater and model of the weighted scores of whole sheets; none without any. Reads latest_ratings."""
    rows, body = list(source.rows(query("reporting/rated_sheets"))), source.rubric_body
    if body is None:
        return
    rubric = rubric_from_body(body)
    unmet = source.rows(query("ratings/unmet_conditions"), run_ids=[source.run_id])
    add_sheet_scores(rows, rubric, list(unmet))
    grouped: dict[tuple[str, Group], dict[str, Row]] = {}
    for row in rows:
        if row["sheet_score"] is not None:
            grouped.setdefault((row["rater"], source.group_of(row)), {})[row["output_id"]] = row
    if not grouped:
        return
    names, scale = short_names(source.groups), rating_scale(rubric)
    cells = []
    for (rater, group), sheets in sorted(grouped.items(), key=lambda entry: (entry[0][0], names[entry[0][1]])):
        score, rating = (
            None if None in values else sum(values) / len(values)
            for values in ([row[name] for row in sheets.values()] for name in ("sheet_score", "sheet_rating"))
        )
        own_scale_words = "–" if rating is None else f"{rating:.2f}"
        cells.append((rater, names[group], f"{len(sheets):,}", score_words(score), own_scale_words))
    heading = "On the raters' scale" if scale is None else f"On the raters' scale of {scale[0]} to {scale[1]}"
    caption = "Weighted score of people's sheets with all ratings"
    yield table_of(caption, ("Rater", "Model"), ("Sheets", "Mean", heading), cells)


def trust_tables(trust: Sequence[CriterionTrust]) -> Iterator[Table]:
    """Failures that the judge finds and the quality of its probabilities; then a reliability curve by criterion."""
    if not trust:
        return
    yield capitalised("Failures that people found, and the judge's probabilities", TRUST, trust)
    for row in trust:
        if row.trust.reliability:
            caption = f"Reliability on {row.criterion_id}: how many people pass, by the judge's probability of passing"
            yield capitalised(caption, RELIABILITY, row.trust.reliability)


_IS_SHARED = "select count(distinct rater) > 1 as is_shared from latest_ratings"
_OF_RATERS = ("Ratings", "Severity", "With decisions", "With gold")
_OF_MODELS = ("Outputs", "Mean rating", "Adjusted", "95% interval")


def rater_tables(source: ReportSource) -> Iterator[Table]:
    """Raters, if there are several, and the models' means if severity is known. Reads latest_ratings."""
    if not source.rows(_IS_SHARED)[0]["is_shared"]:
        return
    raters = compare_raters(source.lake, source.run_id)
    yield table_of("Raters", ("Rater",), _OF_RATERS, map(_rater_cells, raters.rows))
    if any(row.severity for row in raters.rows):
        caption = "Mean ratings, adjusted for the raters' severity"
        yield table_of(caption, ("Model",), _OF_MODELS, map(_model_cells, raters.models))


def _rater_cells(row: RaterRow) -> tuple[str, ...]:
    severity = "–" if row.severity is None else signed_words(row.severity)
    return (row.rater, f"{row.rating_count:,}", severity, _share(row.decisions), _share(row.gold))


def _share(share: Measure) -> str:
    return f"{rated_words(share)} of {share.n:,}" if share.n else "–"


def _model_cells(row: ModelMean) -> tuple[str, ...]:
    mean = row.mean
    means = (score_words(mean.plain), score_words(mean.adjusted))
    return (row.model, f"{mean.n:,}", *means, reason_words(mean.reason) or interval_words(mean.ci_low, mean.ci_high))


def study_tables(source: ReportSource) -> Iterator[Table]:
    """Both tables; none unless the judge replied several times to a question."""
    if not any(row["judge_variance"] is not None for row in source.summary.noise):
        return
    try:
        study = study_run(source.connection, source.lake, source.run_id)
    except InputError:  # replies of this kind are no replicates: `gradebook judge noise` gives the reason
        return
    if study.components:
        yield component_table(study)
    if study.options:
        yield option_table(study)


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
    trust = measure_trust(source.connection, source.run_id) if agreement.together(JUDGE_RATERS) else ()
    tables = (
        *([table] if agreement.parts and not figures else []),
        *trust_tables(trust),
        *([means_table(means)] if means and means_drawn is None else []),
        *([noise_table(noise)] if noise else []),
        *([overall] if overall else []),
        *sheet_tables(source),
        *([preference_table(preferences)] if preferences else []),
        *rater_tables(source),
        *study_tables(source),
    )
    warning = passing_sentence([row.criterion_id for row in trust if is_no_better(row.trust)])
    warnings = [f"{warning[0].upper()}{warning[1:]}."] if warning else []
    sentences = (*_rating_sentences(source, agreement), *warnings)
    return PeopleContents(sentences, figures, means_drawn, noise_figures(source), tables, fault)


def _agreement_figures(source: ReportSource, agreement: CurrentAgreement, table: Table) -> tuple[Figure, ...]:
    figures = (rates_figure(agreement, table), bias_figure(agreement, table), *confusion_figures(source, agreement))
    return tuple(figure for figure in figures if figure is not None)


def _rating_sentences(source: ReportSource, agreement: CurrentAgreement) -> list[str]:
    """Sentences with the counts of ratings, and what the section can't show."""
    offered = source.summary.offered
    offers = [f"{offered[0].upper()}{offered[1:]}."] if offered else []
    if not (agreement.together(JUDGE_RATERS) or agreement.together(RATERS)):
        return offers
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
    return [*sentences, *offers]
