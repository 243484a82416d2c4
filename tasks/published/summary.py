"""What came out of a published run, read back from the lake: the same numbers that SQL gives."""

import json
from dataclasses import dataclass

import duckdb

from gradebook.rubrics.model.errors import GradebookError
from gradebook.tasks.agreement.calibration import Calibration, calibrated_means, corrected_row
from gradebook.tasks.comparing.run_comparison import RunComparison, read_run_comparison
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, read_published_run, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.published.requirements import unmet_requirements


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A published run. scores, criteria, costs, feedback: rows of run_scores, criterion_scores, stage_costs and
    run_feedback; unmet: in words; noise: rows of judge_noise, where verdicts rest on several opinions. means: those of
    the judge calibrated by the ratings that there were when it was read; calibration_fault: why there are none, if so.
    comparison: with its baseline, where it has one. report_fault: why its page could not be drawn, if so.
    """

    run: Row
    scores: tuple[Row, ...]
    criteria: tuple[Row, ...]
    costs: tuple[Row, ...]
    quality: tuple[Row, ...]
    feedback: tuple[Row, ...]
    has_requirement: bool
    unmet: tuple[str, ...]
    noise: tuple[Row, ...] = ()
    means: "tuple[Calibration, ...]" = ()
    calibration_fault: str | None = None
    comparison: "RunComparison | None" = None
    report_fault: str | None = None

    @property
    def verdict(self) -> str:
        """Whether the outputs do what the rubric requires, in a sentence."""
        if not self.has_requirement:
            return "The rubric has no gate and no pass_threshold: there was nothing to meet."
        return "Not every gate and threshold is met." if self.unmet else "Every gate and threshold is met."

    @property
    def calibration(self) -> tuple[Row, ...]:
        """A row a calibrated mean: see `corrected_row`."""
        if not self.means:
            return ()
        return tuple(corrected_row(row) for row in self.means)

    @property
    def run_id(self) -> str:
        """The run's id."""
        return str(self.run["run_id"])

    @property
    def is_met(self) -> bool:
        """Whether every gate and the rubric's threshold hold for every model."""
        return not self.unmet

    def as_json(self) -> Row:
        """One JSON object: what `--json` prints."""
        return {
            **self.run,
            "is_met": self.is_met,
            "verdict": self.verdict,
            "unmet": list(self.unmet),
            "scores": list(self.scores),
            "criteria": list(self.criteria),
            "costs": list(self.costs),
            "quality": list(self.quality),
            "feedback": list(self.feedback),
            "noise": list(self.noise),
            "calibration": list(self.calibration),
            "calibration_fault": self.calibration_fault,
            "comparison": None if self.comparison is None else self.comparison.as_json(),
            "report_fault": self.report_fault,
        }


def summarise(lake: Lake, run_id: str) -> RunSummary:
    """Read a published run's summary. Raises `InputError` where there is none of that id."""
    with connect_up_to_date(lake, is_pinned=True) as connection:
        run = read_published_run(connection, lake, run_id)
        scores = read_rows(
            connection,
            "select * exclude (run_id) from run_scores where run_id = ? order by mean desc nulls last, model",
            run_id,
        )
        criteria = read_rows(connection, query("published/shown_criteria"), run_id=run_id)
        costs = read_rows(connection, _COSTS, run_id)
        quality = read_rows(connection, _QUALITY, run_id)
        feedback = read_rows(connection, _FEEDBACK, run_id)
        noise = read_rows(connection, _NOISE, run_id)
        has_requirement, unmet = unmet_requirements(connection, run_id)
        means, fault = _calibrate(connection, run_id, [row["criterion_id"] for row in criteria])
        comparison, unheld = _comparison(connection, lake, run)
    if unheld is not None:
        has_requirement, unmet = True, (*unmet, unheld)
    if comparison is not None and comparison.gate is not None:
        has_requirement, unmet = True, (*unmet, *comparison.unmet)
    return RunSummary(
        run, scores, criteria, costs, quality, feedback, has_requirement, unmet, noise, means, fault, comparison
    )


def _calibrate(
    connection: duckdb.DuckDBPyConnection, run_id: str, criteria: list[str]
) -> tuple["tuple[Calibration, ...]", str | None]:
    """The calibrated means, where people rated what a judge was asked; or why there are none."""
    try:
        if not read_rows(connection, _IS_RATED, criteria):
            return (), None
        asked = read_rows(connection, query("published/rated_criteria"), run_id=run_id, criterion_ids=criteria)
        rated = [row["criterion_id"] for row in asked]
        if not rated:
            return (), None
        return calibrated_means(connection, run_id, rated), None
    # The run is published: what people said of it later is no reason to fail it.
    except (duckdb.Error, ArithmeticError, ValueError) as error:
        return (), str(error).splitlines()[0]


def _comparison(
    connection: duckdb.DuckDBPyConnection, lake: Lake, run: Row
) -> tuple["RunComparison | None", str | None]:
    """How the run stands beside its baseline; and why its rule could not be held against it, if so."""
    settings = json.loads(run["settings"] or "{}")
    baseline, rule, fault = (settings.get(name) for name in ("baseline_run_id", "fail_if", "baseline_fault"))
    comparison = None
    if baseline is not None:
        try:
            comparison = read_run_comparison(connection, lake, run["run_id"], baseline, rule)
        except GradebookError as error:  # the run is published, whatever became of the other one since
            fault = str(error).splitlines()[0]
    return comparison, f"--fail-if {rule!r} can't be known: {fault}" if rule and fault else None


_COSTS = """
select * exclude (run_id) from stage_costs where run_id = ?
order by list_position(['ingest', 'plan', 'score', 'quality', 'aggregate', 'publish'], stage), criterion_id nulls first
"""
_FEEDBACK = "select model, checkpoint, feedback from run_feedback where run_id = ? order by mean desc nulls last, model"
_NOISE = "select * exclude (run_id) from judge_noise where run_id = ? order by criterion_id, model, checkpoint"
# Of any run's outputs: it reads one table, and nothing more is read where nobody rates.
_IS_RATED = "select 1 as is_rated from ratings where score is not null and list_contains(?, criterion_id) limit 1"
_QUALITY = """
select stage, count(*) as expectation_count, count(*) filter (not is_met) as unmet_count,
    list(subject || ': ' || expectation order by subject, expectation) filter (not is_met) as unmet
from quality_results where run_id = ? group by stage order by stage
"""
