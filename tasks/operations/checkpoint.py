"""Decision about one checkpoint: collect its missing outputs, evaluate them, check the gate, store the decision.

The gate checks its run against the rubric, the last run and the best checkpoint so far.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import sqrt
from pathlib import Path
from typing import Any

from gradebook.rubrics.model.collecting import refuse_incomplete
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.statistics.comparison import PairFigures
from gradebook.rubrics.statistics.rules import AUTO
from gradebook.rubrics.statistics.series import read_series
from gradebook.rubrics.statistics.significance import luck_of_best
from gradebook.rubrics.text.wording import score_words
from gradebook.tasks.collecting.collect import CollectRequest, collect_outputs
from gradebook.tasks.comparing.compare import ComparisonOptions, compare_runs
from gradebook.tasks.comparing.figures import ComparedRow, overall_row
from gradebook.tasks.comparing.gate import GateRule, gate_rule
from gradebook.tasks.comparing.run_comparison import RunComparison, as_run_comparison, series_factor
from gradebook.tasks.comparing.sides import runs_of_other_judges
from gradebook.tasks.datasets.discovery import dataset_files, digest_files
from gradebook.tasks.datasets.one_checkpoint import OneCheckpoint
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.operations.checkpoint_decisions import (
    APPROVED,
    NEEDS_REVISION,
    UNDECIDED,
    CheckpointKey,
    approved_checkpoints,
    decide,
    find_decided,
    key_of,
    name_checkpoint,
)
from gradebook.tasks.published.run_tables import comparison_table, sides_words
from gradebook.tasks.published.summary import RunSummary, summarise
from gradebook.tasks.reporting.rendering import escaped, table_text
from gradebook.tasks.rubric_store.versions import find_rubric, refuse_changed_rubric
from gradebook.tasks.runs.request import EvaluationRequest, SeriesOfNights
from gradebook.tasks.stages.check_request import check_request
from gradebook.tasks.stages.pipeline import publish_evaluation
from gradebook.tasks.stages.submit import Event, Stages
from gradebook.tasks.workspace.folder import LATEST, RunFolder

_FIGURES = ("n", "mean_a", "mean_b", "mean_diff", "diff_low", "diff_high", "p", "p_adjusted")


@dataclass(frozen=True, slots=True)
class CheckpointDecision:
    """Decision about a checkpoint. row: of `checkpoints`; latest, best: comparisons with the last run and the best one.

    is_new: whether it was made now. report: path of the run's page. note: why approved checkpoints were not compared.
    """

    row: Row
    latest: RunComparison | None
    best: RunComparison | None
    report: str
    is_new: bool
    note: str | None = None

    @property
    def is_approved(self) -> bool:
        """Whether the checkpoint is approved."""
        return bool(self.row["status"] == APPROVED)

    @property
    def is_undecided(self) -> bool:
        """Whether a rule can't be checked, and none is known to fail."""
        return bool(self.row["status"] == UNDECIDED)

    def as_json(self) -> dict[str, Any]:
        """JSON object of the gate's event. Differences: this checkpoint's mean minus the other one's."""
        names = ("run_id", "model", "checkpoint", "step", "status", "reasons", "mean", "rubric_id", "rubric_version")
        return {
            **{name: self.row[name] for name in names},
            "decided_at": self.row["decided_at"].isoformat(),
            "differences": {"latest": _differences(self.latest), "best": _differences(self.best)},
            "note": self.note,
            "dataset": self.row["dataset"],
            "dataset_digest": self.row["dataset_digest"],
            "report": self.report,
        }


@dataclass(frozen=True, slots=True)
class Decider:
    """Gate for one checkpoint of a lake. step: as requested; gate: of the comparisons.

    across_judges: compare with checkpoints that another judge scored, too. reference: name of the approved checkpoint
    to compare with, in place of the best one.
    """

    lake: Lake
    key: CheckpointKey
    step: int | None
    gate: GateRule | None
    across_judges: bool = False
    reference: str | None = None

    def decide(self, summary: RunSummary, report: str) -> CheckpointDecision:
        """Decide on the basis of a published run and store the decision; an earlier decision for the key wins."""
        latest = summary.comparison
        candidates = self._candidates()
        comparable = self._comparable(candidates, summary.run_id)
        best_row = comparable[0] if comparable else None
        best, fault = self._compare_with_best(latest, comparable, summary.run_id)
        against_best = self._best_reasons(latest, best, fault, best_row)
        unmet = [(str(requirement), requirement.is_undecided) for requirement in summary.unmet] + against_best
        is_undecided = all(is_open for _, is_open in unmet)
        overall = _overall_row(best)
        row: Row = {
            "model": self.key.model,
            "checkpoint": self.key.checkpoint,
            "step": self.step,
            "rubric_id": self.key.rubric_id,
            "rubric_version": self.key.rubric_version,
            "run_id": summary.run_id,
            "status": APPROVED if not unmet else UNDECIDED if is_undecided else NEEDS_REVISION,
            "reasons": [reason for reason, _ in unmet],
            "mean": summary.scores[0]["mean"] if summary.scores else None,
            "latest_run_id": latest.baseline_run_id if latest else None,
            "best_run_id": best_row["run_id"] if best_row else None,
            "best_diff": _shrunk_difference(overall.figures, comparable) if overall else None,
            "best_diff_low": overall.figures.diff_low if overall else None,
            "best_diff_high": overall.figures.diff_high if overall else None,
            "best_p": overall.figures.p if overall else None,
            "dataset": summary.run["dataset"],
            "dataset_digest": self.key.dataset_digest,
            "decided_at": datetime.now(UTC),
        }
        stored_row = decide(self.lake, row)
        note = _left_out_note(len(candidates) - len(comparable), len(candidates))
        return CheckpointDecision(stored_row, latest, best, report, is_new=stored_row is row, note=note)

    def read(self, row: Row, report: str) -> CheckpointDecision:
        """Rebuild an earlier decision with its comparisons. row: of `checkpoints`."""
        latest = summarise(self.lake, row["run_id"]).comparison
        candidates = self._candidates(row["decided_at"])
        comparable = self._comparable(candidates, row["run_id"])
        best_run_id = row["best_run_id"]
        # Differs if an earlier version decided, or the reference was another.
        if best_run_id != (comparable[0]["run_id"] if comparable else None):
            all_approved = approved_checkpoints(self.lake, self.key, row["decided_at"])
            comparable = (
                tuple(sorted(all_approved, key=lambda row: row["run_id"] != best_run_id)) if best_run_id else ()
            )
        best, _ = self._compare_with_best(latest, comparable, row["run_id"])
        note = _left_out_note(len(candidates) - len(comparable), len(candidates))
        return CheckpointDecision(row, latest, best, report, is_new=False, note=note)

    def _candidates(self, before: datetime | None = None) -> tuple[Row, ...]:
        """Approved checkpoints to compare with, the best first; only the reference, if one is named."""
        approved = approved_checkpoints(self.lake, self.key, before)
        return tuple(row for row in approved if self.reference in (None, row["checkpoint"]))

    def _comparable(self, candidates: tuple[Row, ...], run_id: str) -> tuple[Row, ...]:
        """Candidates scored by the run's own judge; all candidates with across_judges."""
        if self.across_judges or not candidates:
            return candidates
        other_judges_runs = runs_of_other_judges(self.lake, run_id, [row["run_id"] for row in candidates])
        return tuple(row for row in candidates if row["run_id"] not in other_judges_runs)

    def _compare_with_best(
        self, latest: RunComparison | None, candidates: tuple[Row, ...], run_id: str
    ) -> tuple[RunComparison | None, str | None]:
        """Compare the run with the best checkpoint's; returns the comparison, or why it is impossible.

        The best mean is partly chance: p and intervals allow for the number of candidates (Bonferroni), and for
        the look of a series.
        """
        if not candidates:
            return None, None
        best_run_id = candidates[0]["run_id"]
        if latest is not None and latest.baseline_run_id == best_run_id:
            return latest, None
        try:
            with connect_up_to_date(self.lake) as connection:
                factor = len(candidates) * series_factor(connection, run_id)
            options = ComparisonOptions(gate=self.gate, across_judges=self.across_judges, chosen_from=factor)
            compared = compare_runs(self.lake, best_run_id, run_id, options)
        except InputError as error:  # the run is already published, so the decision records the fault
            return None, str(error)
        return as_run_comparison(compared), None

    def _best_reasons(
        self, latest: RunComparison | None, best: RunComparison | None, fault: str | None, best_row: Row | None
    ) -> list[tuple[str, bool]]:
        """Reasons why the gate is not passed against the best checkpoint or the reference: sentences, and whether each
        leaves it undecided.

        None if that is the last run, whose reasons are listed already.
        """
        if best_row is None:
            if self.gate is None or self.reference in (None, self.key.checkpoint):
                return []
            expected = f"found no approved checkpoint {self.reference} that the same judge scored"
            return [(f"against the reference: gate undecided: required {self.gate.required}, {expected}", True)]
        kind = "best" if self.reference is None else "reference"
        name = f"against the {kind}, {best_row['checkpoint']} ({best_row['run_id']})"
        if self.gate is not None and fault is not None:
            return [(f"{name}: gate undecided: required {self.gate.required}, found no comparison: {fault}", True)]
        if best is None or best is latest or best.gate is None:
            return []
        return [(f"{name}: {reason}", best.gate.is_undecided) for reason in best.unmet]


def _left_out_note(left_out_count: int, count: int) -> str | None:
    if not left_out_count:
        return None
    sentence = f"{left_out_count} of {count} approved checkpoints were scored by another judge and are not compared"
    return f"{sentence}; so there is no best checkpoint." if left_out_count == count else f"{sentence}."


def _overall_row(comparison: RunComparison | None) -> ComparedRow | None:
    rows = [row for pair in comparison.models for row in pair.rows] if comparison else []
    return overall_row(rows)


def _shrunk_difference(figures: PairFigures, candidates: Sequence[Row]) -> float | None:
    """Difference from the best candidate, without the part of its mean that chance explains."""
    if figures.mean_diff is None or figures.sd_diff is None:
        return figures.mean_diff
    standard_error = figures.sd_diff / sqrt(figures.case_count)
    return figures.mean_diff + luck_of_best([row["mean"] for row in candidates], standard_error)


def _differences(comparison: RunComparison | None) -> dict[str, Any] | None:
    """Figures of a comparison for the event; A is the other run, B the checkpoint's."""
    if comparison is None:
        return None
    rows = [row for pair in comparison.models for row in pair.rows]
    return {
        "run_id": comparison.baseline_run_id,
        "banner": comparison.banner,
        "rows": [
            {"scope": row.scope, "id": row.scope_id or None, "is_regression": row.is_regression}
            | {name: getattr(row.figures, name) for name in _FIGURES}
            for row in rows
        ],
    }


MOST_ROWS = 100


def checkpoint_text(decision: CheckpointDecision) -> str:
    """Decision, reasons, and comparisons with the last run and the best checkpoint, in Markdown."""
    row = decision.row
    title = f"{row['model']} @ {row['checkpoint']}: {row['status'].replace('_', ' ')}"
    summary = f"By {row['rubric_id']} {row['rubric_version']}, run {row['run_id']}; mean {score_words(row['mean'])}."
    again = "" if decision.is_new else "This is an earlier decision; nothing was evaluated again.\n\n"
    reasons = "".join(f"- {escaped(reason)}\n" for reason in row["reasons"])
    sections = [f"#### {escaped(title)}\n\n{escaped(summary)}\n\n{again}{reasons}"]
    sections += [f"{escaped(decision.note)}\n"] if decision.note else []
    sections += _comparison_part("Compared with the last run", decision.latest)
    if decision.best is not decision.latest:
        sections += _comparison_part("Compared with the best approved checkpoint, or the reference", decision.best)
    return "\n".join(sections)


def _comparison_part(title: str, comparison: RunComparison | None) -> list[str]:
    if comparison is None:
        return []
    banner = "" if comparison.banner is None else f"> {escaped(comparison.banner)}\n\n"
    table = table_text(comparison_table(comparison, MOST_ROWS))
    return [f"#### {title}\n\n{banner}{escaped(sides_words(comparison))}\n\n{table}\n"]


PASSED, FAILED, OPEN = "gradebook.gate.passed", "gradebook.gate.failed", "gradebook.gate.undecided"


@dataclass(frozen=True, slots=True)
class CheckpointRequest:
    """Request for a decision about one checkpoint.

    evaluation: of its outputs; its baseline and series are set here. checkpoint: name, by default from the outputs,
    otherwise the step. prompts, endpoint: both or neither; the outputs are then collected first. reference: name of an
    approved checkpoint to compare with in place of the best one. series: as method=lord,alpha=0.05,looks=31.
    """

    evaluation: EvaluationRequest
    model: str
    checkpoint: str | None = None
    step: int | None = None
    prompts: str | None = None
    endpoint: str | None = None
    samples: int = 1
    collect_budget_usd: float | None = None
    reference: str | None = None
    series: str | None = None


def decide_checkpoint(checkpoint_request: CheckpointRequest, stages: Stages) -> CheckpointDecision:
    """Evaluate the outputs of one checkpoint, compare it with the last run and the best checkpoint, and decide.

    A decision is made once for each model, checkpoint, rubric version and content of the outputs; later requests read
    the stored decision, unless it is undecided. Raises `InputError` for a wrong request, before anything is collected.
    """
    if checkpoint_request.evaluation.require == AUTO:
        raise InputError("require", AUTO, "a rule that is the same for all checkpoints")
    request = replace(
        checkpoint_request.evaluation,
        trigger="checkpoint",
        baseline=LATEST,
        series=read_checkpoint_series(checkpoint_request.series),
    )
    if checkpoint_request.prompts is not None or checkpoint_request.endpoint is not None:
        stages.call(collect_outputs, _collect_request(checkpoint_request, request))
        request = replace(request, column_map={})  # for the prompts only: collected outputs have gradebook's columns
    decision = _decide(checkpoint_request, request, stages)
    row = decision.row
    sentence = f"{row['model']} @ {row['checkpoint']}: {row['status']}"
    stages.show_text(row["rubric_id"], "checkpoint", checkpoint_text(decision), sentence)
    stages.emit(_event_of(decision))
    return decision


def read_checkpoint_series(series: str | None) -> SeriesOfNights | None:
    """Series over the checkpoints of a model. Raises `InputError`."""
    if series is None:
        return None
    try:
        return SeriesOfNights(read_series(series), "branch")
    except ValueError:
        raise InputError("series", repr(series), "method=lord|obf|bonferroni,alpha=0.05,looks=31") from None


def _collect_request(checkpoint_request: CheckpointRequest, request: EvaluationRequest) -> CollectRequest:
    """Build the request that collects the file of outputs, and check the evaluation that follows.

    Raises `InputError`, also for faults of the evaluation, so that nothing is collected in vain.
    """
    refuse_incomplete(
        checkpoint_request.prompts, checkpoint_request.endpoint, checkpoint_request.checkpoint, checkpoint_request.step
    )
    check_request(replace(request, outputs=checkpoint_request.prompts or ""))  # the outputs do not exist yet
    return CollectRequest(
        checkpoint_request.prompts or "",
        checkpoint_request.endpoint or "",
        Path(request.outputs),
        model=checkpoint_request.model,
        checkpoint=checkpoint_request.checkpoint or str(checkpoint_request.step),
        samples=checkpoint_request.samples,
        budget_usd=checkpoint_request.collect_budget_usd,
        column_map=request.column_map,
    )


def _decide(checkpoint_request: CheckpointRequest, request: EvaluationRequest, stages: Stages) -> CheckpointDecision:
    """Read the stored decision about the checkpoint, or publish a run and decide."""
    lake = find_lake(request.lake, request.data)
    rubric, files = find_rubric(request.rubric, lake), dataset_files(request.outputs)
    refuse_changed_rubric(lake, rubric)
    name = name_checkpoint(files, request.column_map, checkpoint_request.checkpoint, checkpoint_request.step)
    key = CheckpointKey(checkpoint_request.model, name, rubric.id, rubric.version, digest_files(files))
    gate = gate_rule(request.fail_if, request.require)
    decider = Decider(lake, key, checkpoint_request.step, gate, request.across_judges, checkpoint_request.reference)
    if (row := find_decided(lake, key)) and row["status"] != UNDECIDED:
        return decider.read(row, str(RunFolder.below(lake.root, row["run_id"]).report_file))
    run_id = stages.run_id(f"{checkpoint_request.model}-{name}")
    summary = publish_evaluation(
        replace(request, run_id=run_id, checkpoint=OneCheckpoint(checkpoint_request.model, name)), stages
    )
    return decider.decide(summary, str(RunFolder.below(lake.root, summary.run_id).report_file))


def _event_of(decision: CheckpointDecision) -> Event:
    """The gate's event, whose key depends on the decision alone.

    A stored decision is emitted again: the process that decided may have been killed before it emitted the event.
    """
    row, key = decision.row, key_of(decision.row)
    retry_key = (
        ("undecided", row["run_id"]) if decision.is_undecided else ()
    )  # an undecided checkpoint may have several events
    return Event(
        PASSED if decision.is_approved else OPEN if decision.is_undecided else FAILED,
        {"prefect.resource.id": f"training.{row['model']}", "prefect.resource.name": row["model"]},
        decision.as_json(),
        "\n".join(("gradebook gate", *key.values, *retry_key)),
        {"run": f"gradebook.run.{row['run_id']}"},
    )
