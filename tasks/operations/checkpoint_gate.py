"""Approval of a checkpoint: its run checked against the rubric, the last run and the best checkpoint so far."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import sqrt
from typing import Any

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.statistics.chance import luck_of_best
from gradebook.rubrics.statistics.comparison import PairFigures
from gradebook.rubrics.statistics.rules import OVERALL
from gradebook.tasks.comparing.compare import Asked, compare_runs
from gradebook.tasks.comparing.figures import ComparedRow
from gradebook.tasks.comparing.gate import GateRule
from gradebook.tasks.comparing.model_pairs import runs_of_other_judges
from gradebook.tasks.comparing.run_comparison import RunComparison, comparison_of, series_factor
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.operations.checkpoint_decisions import (
    APPROVED,
    NEEDS_REVISION,
    CheckpointKey,
    approved_checkpoints,
    decide,
)
from gradebook.tasks.published.summary import RunSummary, summarise

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
        found = comparable[0] if comparable else None
        best, fault = self._compare_with_best(latest, comparable, summary.run_id)
        reasons = [*map(str, summary.unmet), *self._best_reasons(latest, best, fault, found)]
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
            "best_diff": _shrunk_difference(overall.figures, comparable) if overall else None,
            "best_diff_low": overall.figures.diff_low if overall else None,
            "best_diff_high": overall.figures.diff_high if overall else None,
            "best_p": overall.figures.p if overall else None,
            "dataset": summary.run["dataset"],
            "dataset_digest": self.key.dataset_digest,
            "decided_at": datetime.now(UTC),
        }
        stored = decide(self.lake, row)
        note = _note(len(candidates) - len(comparable), len(candidates))
        return CheckpointDecision(stored, latest, best, report, is_new=stored is row, note=note)

    def read(self, row: Row, report: str) -> CheckpointDecision:
        """Rebuild an earlier decision with its comparisons. row: of `checkpoints`."""
        latest = summarise(self.lake, row["run_id"]).comparison
        candidates = self._candidates(row["decided_at"])
        chosen = self._comparable(candidates, row["run_id"])
        best_run_id = row["best_run_id"]
        if best_run_id != (chosen[0]["run_id"] if chosen else None):  # by an earlier version, or another reference
            all_approved = approved_checkpoints(self.lake, self.key, row["decided_at"])
            chosen = tuple(sorted(all_approved, key=lambda each: each["run_id"] != best_run_id)) if best_run_id else ()
        best, _ = self._compare_with_best(latest, chosen, row["run_id"])
        note = _note(len(candidates) - len(chosen), len(candidates))
        return CheckpointDecision(row, latest, best, report, is_new=False, note=note)

    def _candidates(self, before: datetime | None = None) -> tuple[Row, ...]:
        """Approved checkpoints to compare with: all, the best first, or the reference alone."""
        found = approved_checkpoints(self.lake, self.key, before)
        return tuple(row for row in found if self.reference in (None, row["checkpoint"]))

    def _comparable(self, candidates: tuple[Row, ...], run_id: str) -> tuple[Row, ...]:
        """Candidates that the run's own judge scored; all of them across judges."""
        if self.across_judges or not candidates:
            return candidates
        apart = runs_of_other_judges(self.lake, run_id, [row["run_id"] for row in candidates])
        return tuple(row for row in candidates if row["run_id"] not in apart)

    def _compare_with_best(
        self, latest: RunComparison | None, candidates: tuple[Row, ...], run_id: str
    ) -> tuple[RunComparison | None, str | None]:
        """Compare the run with the best checkpoint's; returns the comparison, or why it is impossible.

        The best is partly so by chance: p and intervals allow for the number it was chosen from (Bonferroni), and for
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
            asked = Asked(gate=self.gate, across_judges=self.across_judges, chosen_from=factor)
            compared = compare_runs(self.lake, best_run_id, run_id, asked)
        except InputError as error:  # the run is already published, so the decision records the fault
            return None, str(error)
        return comparison_of(compared), None

    def _best_reasons(
        self, latest: RunComparison | None, best: RunComparison | None, fault: str | None, found: Row | None
    ) -> list[str]:
        """Reasons why the gate fails against the best checkpoint or the reference, a sentence each.

        None if that is the last run, whose reasons are listed already.
        """
        if found is None:
            if self.gate is None or self.reference in (None, self.key.checkpoint):
                return []
            expected = f"found no approved checkpoint {self.reference} that the same judge scored"
            return [f"against the reference: gate failed: required {self.gate.required}, {expected}"]
        kind = "best" if self.reference is None else "reference"
        name = f"against the {kind}, {found['checkpoint']} ({found['run_id']})"
        if self.gate is not None and fault is not None:
            return [f"{name}: gate failed: required {self.gate.required}, found no comparison: {fault}"]
        return [] if best is None or best is latest else [f"{name}: {reason}" for reason in best.unmet]


def _note(left_out_count: int, count: int) -> str | None:
    if not left_out_count:
        return None
    words = f"{left_out_count} of {count} approved checkpoints were scored by another judge and are not compared"
    return f"{words}; so there is no best checkpoint." if left_out_count == count else f"{words}."


def _overall(comparison: RunComparison | None) -> ComparedRow | None:
    rows = [row for pair in comparison.models for row in pair.rows] if comparison else []
    return next((row for row in rows if row.scope == OVERALL), None)


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
