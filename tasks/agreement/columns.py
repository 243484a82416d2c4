"""Columns of tables on raters, agreement and corrected means, the same in the terminal and on pages."""

from collections.abc import Callable, Sequence

from gradebook.rubrics.statistics.agreement import Measure
from gradebook.rubrics.statistics.calibration import Estimate
from gradebook.rubrics.statistics.davidson import Strength
from gradebook.rubrics.text.tables import Cells
from gradebook.rubrics.text.wording import signed_words, with_interval
from gradebook.tasks.agreement.calibration import Calibration
from gradebook.tasks.agreement.mart import JUDGE_RATERS, JUDGES, RATERS
from gradebook.tasks.agreement.published_run import AgreementPart
from gradebook.tasks.agreement.raters import ModelMean, RaterPace, RaterPair, RaterRow

UNKNOWN = "–"
TITLES = {
    RATERS: "raters among themselves",
    JUDGE_RATERS: "judge against raters",
    JUDGES: "judges among themselves",
}
SHOWN = {  # statistic -> heading, most important first: a narrow terminal shows only the first columns
    "alpha_ordinal": "alpha, ordinal",
    "bias": "bias",
    "percent_agreement": "agreement",
    "cohen_kappa_quadratic": "kappa, quadratic",
    "gwet_ac1": "AC1",
    "spearman": "Spearman",
}


def measure_words(figure: Measure | Estimate | Strength) -> str:
    """Figure with its 95% interval, or a dash where it is unknown."""
    return UNKNOWN if figure.value is None else with_interval(figure.value, figure.ci_low, figure.ci_high)


def agreement_columns(parts: Sequence[AgreementPart], *, has_who: bool) -> Cells[AgreementPart]:
    """Columns of agreements of one kind, with a column for each known statistic.

    has_who: a column for the judge or rater.
    """
    statistics = [name for name in SHOWN if any(part.measure(name).value is not None for part in parts)]
    who: Cells[AgreementPart] = {"who": lambda part: part.judge or part.rater or ""} if has_who else {}
    return {
        "criterion": lambda part: part.criterion_id,
        **who,
        "outputs": lambda part: f"{part.n:,}",
        **{SHOWN[name]: _statistic(name) for name in statistics},
        "pairs": lambda part: f"{part.pair_count:,}",
    }


def _statistic(name: str) -> Callable[[AgreementPart], str]:
    return lambda part: measure_words(part.measure(name))


def _share_of_words(share: Measure) -> str:
    return measure_words(share) + (f" of {share.n:,}" if share.n else "")


_BESIDE: Cells[RaterRow | RaterPair] = {
    "mean difference": lambda row: measure_words(row.beside.difference),
    "alpha": lambda row: measure_words(row.beside.alpha),
    "agreement": lambda row: measure_words(row.beside.agreement),
    "pairs": lambda row: f"{row.beside.pair_count:,}",
}
RATER_COLUMNS: Cells[RaterRow] = {
    "rater": lambda row: row.rater,
    "ratings": lambda row: f"{row.rating_count:,}",
    **_BESIDE,
    "outputs": lambda row: f"{row.output_count:,}",
    "with decisions": lambda row: _share_of_words(row.decisions),
    "with gold": lambda row: _share_of_words(row.gold),
    "severity": lambda row: signed_words(row.severity),
}
PAIR_COLUMNS: Cells[RaterPair] = {"rater": lambda row: row.rater, "other": lambda row: row.other, **_BESIDE}
MEAN_COLUMNS: Cells[ModelMean] = {
    "model": lambda row: row.model,
    "ratings of": lambda row: f"{row.mean.n:,}",
    "mean": lambda row: f"{row.mean.plain:.3f}",
    "adjusted": lambda row: with_interval(row.mean.adjusted, row.mean.ci_low, row.mean.ci_high),
}
PACE_COLUMNS: Cells[RaterPace] = {
    "rater": lambda row: row.rater,
    "sheets": lambda row: f"{row.sheet_count:,}",
    "minutes": lambda row: f"{row.minutes:,.1f}",
    "median s": lambda row: f"{row.median_sheet_s:,.0f}",
    "too fast": lambda row: f"{row.fast_sheet_count:,}",
}
CALIBRATED_COLUMNS: Cells[Calibration] = {
    "criterion": lambda row: row.criterion_id,
    "model": lambda row: row.name,
    "rated": lambda row: f"{row.n:,}",
    "unrated": lambda row: f"{row.unrated_count:,}",
    "corrected": lambda row: measure_words(row.corrected),
    "ratings alone": lambda row: measure_words(row.rated),
    "judge alone": lambda row: measure_words(row.naive),
    "Rogan-Gladen": lambda row: measure_words(row.rogan_gladen),
}
