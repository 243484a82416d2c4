"""Summary of a published run, read from the lake with the same numbers as SQL."""

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
    """Published run.

    scores, criteria, costs, feedback: rows of run_scores, criterion_scores, stage_costs, run_feedback. noise: rows of
    judge_noise, if verdicts have several opinions. unmet: requirements that are not met, as sentences; waived: unmet
    ones that `--gate` ignores. means: the judge's means calibrated with the ratings of that time; calibration_fault:
    why there are none. comparison: with the baseline, if any. report_fault: why the page could not be written.
    unscored: reasons of the verdicts without a score, as rows of unscored_reasons.
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
    waived: tuple[str, ...] = ()
    unscored: tuple[Row, ...] = ()

    @property
    def verdict(self) -> str:
        """Sentence that states whether the requirements are met."""
        if not self.has_requirement and self.run_gate != "both":
            return f"No requirement counts under --gate {self.run_gate}."
        if not self.has_requirement:
            return "The rubric has no gate and no pass_threshold, so there is no requirement."
        return "Not every gate and threshold is met." if self.unmet else "Every gate and threshold is met."

    @property
    def calibration(self) -> tuple[Row, ...]:
        """One row for each calibrated mean, as `corrected_row`."""
        if not self.means:
            return ()
        return tuple(corrected_row(row) for row in self.means)

    @property
    def run_gate(self) -> str:
        """Requirements that count: both, rubric, baseline or none."""
        return _gate_of(self.run)

    @property
    def run_id(self) -> str:
        """The run's id."""
        return str(self.run["run_id"])

    @property
    def is_met(self) -> bool:
        """Whether all requirements that `--gate` counts are met, for every model."""
        return not self.unmet

    def as_json(self) -> Row:
        """JSON object printed by `--json`."""
        return {
            **self.run,
            "is_met": self.is_met,
            "verdict": self.verdict,
            "unmet": list(self.unmet),
            "waived": list(self.waived),
            "scores": list(self.scores),
            "criteria": list(self.criteria),
            "unscored": list(self.unscored),
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
    """Read a published run's summary. Raises `InputError` for an unknown id."""
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
        unscored = read_rows(connection, query("published/unscored_reasons"), run_id=run_id)
        has_requirement, unmet = unmet_requirements(connection, run_id)
        means, fault = _calibrate(connection, run_id, [row["criterion_id"] for row in criteria])
        comparison, unheld = _comparison(connection, lake, run)
    has_rule = unheld is not None or (comparison is not None and comparison.gate is not None)
    of_baseline = (() if unheld is None else (unheld,)) + (() if comparison is None else comparison.unmet)
    gate = _gate_of(run)
    counts_rubric, counts_baseline = gate in ("both", "rubric"), gate in ("both", "baseline")
    return RunSummary(
        run,
        scores,
        criteria,
        costs,
        quality,
        feedback,
        has_requirement=(has_requirement and counts_rubric) or (has_rule and counts_baseline),
        unmet=(*(unmet if counts_rubric else ()), *(of_baseline if counts_baseline else ())),
        noise=noise,
        means=means,
        calibration_fault=fault,
        comparison=comparison,
        waived=(*(() if counts_rubric else unmet), *(() if counts_baseline else of_baseline)),
        unscored=unscored,
    )


def _gate_of(run: Row) -> str:
    return str(json.loads(run.get("settings") or "{}").get("gate") or "both")


def _calibrate(
    connection: duckdb.DuckDBPyConnection, run_id: str, criteria: list[str]
) -> tuple["tuple[Calibration, ...]", str | None]:
    """Calibrated means, if judged criteria were rated by people; or the reason why there are none."""
    try:
        if not read_rows(connection, _IS_RATED, criteria):
            return (), None
        asked = read_rows(connection, query("published/rated_criteria"), run_id=run_id, criterion_ids=criteria)
        rated = [row["criterion_id"] for row in asked]
        if not rated:
            return (), None
        return calibrated_means(connection, run_id, rated), None
    # The run is already published: a fault of later ratings must not fail it.
    except (duckdb.Error, ArithmeticError, ValueError) as error:
        return (), str(error).splitlines()[0]


def _comparison(
    connection: duckdb.DuckDBPyConnection, lake: Lake, run: Row
) -> tuple["RunComparison | None", str | None]:
    """Comparison of the run with its baseline, and why its rule could not be evaluated, if so."""
    settings = json.loads(run["settings"] or "{}")
    baseline, rule, fault = (settings.get(name) for name in ("baseline_run_id", "fail_if", "baseline_fault"))
    comparison = None
    if baseline is not None:
        try:
            comparison = read_run_comparison(connection, lake, run["run_id"], baseline, rule)
        except GradebookError as error:  # the run is already published: a fault of the baseline must not fail it
            fault = str(error).splitlines()[0]
    return comparison, f"--fail-if {rule!r} can't be evaluated: {fault}" if rule and fault else None


_COSTS = """
select * exclude (run_id) from stage_costs where run_id = ?
order by
    list_position(['start', 'ingest', 'plan', 'score', 'quality', 'aggregate', 'publish'], stage),
    criterion_id nulls first
"""
_FEEDBACK = "select model, checkpoint, feedback from run_feedback where run_id = ? order by mean desc nulls last, model"
_NOISE = "select * exclude (run_id) from judge_noise where run_id = ? order by criterion_id, model, checkpoint"
# Ratings of any run count: this cheap query of one table avoids the others in a lake without ratings.
_IS_RATED = "select 1 as is_rated from ratings where score is not null and list_contains(?, criterion_id) limit 1"
_QUALITY = """
select stage, count(*) as expectation_count, count(*) filter (not is_met) as unmet_count,
    list(subject || ': ' || expectation order by subject, expectation) filter (not is_met) as unmet
from quality_results where run_id = ? group by stage order by stage
"""
