"""Approval of a checkpoint: its run checked against the rubric, the last run and the best checkpoint so far."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.statistics.rules import OVERALL
from gradebook.tasks.comparing.compare import Asked, compare_runs
from gradebook.tasks.comparing.figures import ComparedRow
from gradebook.tasks.comparing.run_comparison import RunComparison, comparison_of
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.operations.checkpoint_decisions import (
    APPROVED,
    NEEDS_REVISION,
    CheckpointKey,
    best_checkpoint,
    decide,
)
from gradebook.tasks.published.summary import RunSummary, summarise

_FIGURES = ("n", "mean_a", "mean_b", "mean_diff", "diff_low", "diff_high", "p", "p_adjusted")


@dataclass(frozen=True, slots=True)
class CheckpointDecision:
    """Decision about a checkpoint. row: of `checkpoints`; latest, best: comparisons with the last run and the best one.

    is_new: whether it was made now. report: path of the run's page.
    """

    row: Row
    latest: RunComparison | None
    best: RunComparison | None
    report: str
    is_new: bool

    @property
    def is_approved(self) -> bool:
        """Whether the checkpoint is approved."""
        return bool(self.row["status"] == APPROVED)

    def as_json(self) -> dict[str, Any]:
        """JSON object of the gate's event. Differences: this checkpoint's mean minus the other one's."""
        names = ("run_id", "model", "checkpoint", "step", "status", "reasons", "mean", "rubric_id", "rubric_version")
        return {
            **{name: self.row[name] for name in names},
            "decided_at": self.row["decided_at"].isoformat(),
            "differences": {"latest": _differences(self.latest), "best": _differences(self.best)},
            "dataset": self.row["dataset"],
            "dataset_digest": self.row["dataset_digest"],
            "report": self.report,
        }


@dataclass(frozen=True, slots=True)
class Decider:
    """Gate for one checkpoint of a lake. step: as requested; fail_if: rule of the comparisons."""

    lake: Lake
    key: CheckpointKey
    step: int | None
    fail_if: str | None

    def decide(self, summary: RunSummary, report: str) -> CheckpointDecision:
        """Decide on the basis of a published run and store the decision; an earlier decision for the key wins."""
        latest = summary.comparison
        found = best_checkpoint(self.lake, self.key)
        best, fault = self._compare_with_best(latest, found, summary.run_id)
        reasons = [*map(str, summary.unmet), *(self._best_reasons(latest, best, fault, found) if found else ())]
        overall = _overall(best)
        row: Row = {
            "model": self.key.model,
            "checkpoint": self.key.checkpoint,
            "step": self.step,
            "rubric_id": self.key.rubric_id,
            "rubric_version": self.key.rubric_version,
            "run_id": summary.run_id,
            "status": NEEDS_REVISION if reasons else APPROVED,
            "reasons": reasons,
            "mean": summary.scores[0]["mean"] if summary.scores else None,
            "latest_run_id": latest.baseline_run_id if latest else None,
            "best_run_id": found["run_id"] if found else None,
            "best_diff": overall.figures.mean_diff if overall else None,
            "best_diff_low": overall.figures.diff_low if overall else None,
            "best_diff_high": overall.figures.diff_high if overall else None,
            "best_p": overall.figures.p if overall else None,
            "dataset": summary.run["dataset"],
            "dataset_digest": self.key.dataset_digest,
            "decided_at": datetime.now(UTC),
        }
        stored = decide(self.lake, row)
        return CheckpointDecision(stored, latest, best, report, is_new=stored is row)

    def read(self, row: Row, report: str) -> CheckpointDecision:
        """Rebuild an earlier decision with its comparisons. row: of `checkpoints`."""
        latest = summarise(self.lake, row["run_id"]).comparison
        found = best_checkpoint(self.lake, self.key, row["decided_at"]) if row["best_run_id"] else None
        best, _ = self._compare_with_best(latest, found, row["run_id"])
        return CheckpointDecision(row, latest, best, report, is_new=False)

    def _compare_with_best(
        self, latest: RunComparison | None, found: Row | None, run_id: str
    ) -> tuple[RunComparison | None, str | None]:
        """Compare the run with the best checkpoint's; returns the comparison, or why it is impossible.

        The best is partly so by chance: p and intervals allow for the number it was chosen from (Bonferroni).
        """
        if found is None:
            return None, None
        best_run_id = found["run_id"]
        if latest is not None and latest.baseline_run_id == best_run_id:
            return latest, None
        try:
            asked = Asked(rule=self.fail_if, chosen_from=found["candidate_count"])
            compared = compare_runs(self.lake, best_run_id, run_id, asked)
        except InputError as error:  # the run is already published, so the decision records the fault
            return None, str(error)
        return comparison_of(compared), None

    def _best_reasons(
        self, latest: RunComparison | None, best: RunComparison | None, fault: str | None, found: Row
    ) -> list[str]:
        """Reasons why the rule fails against the best checkpoint, unless that is the last run; one sentence each."""
        name = f"against the best, {found['checkpoint']} ({found['run_id']})"
        if self.fail_if is not None and fault is not None:
            return [f"{name}: --fail-if {self.fail_if!r} can't be evaluated: {fault}"]
        return [] if best is None or best is latest else [f"{name}: {reason}" for reason in best.unmet]


def _overall(comparison: RunComparison | None) -> ComparedRow | None:
    rows = [row for pair in comparison.models for row in pair.rows] if comparison else []
    return next((row for row in rows if row.scope == OVERALL), None)


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
