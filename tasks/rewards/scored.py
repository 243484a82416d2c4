"""Outcome of scoring one output in this process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from gradebook.rubrics.model.rewards import Reward

_TOLERANCE = 1e-9  # of a sum of floats, as in a run
_WIDEST = 60


class Verdict(NamedTuple):
    """Verdict on one output and criterion, as columns of `VERDICT_SCHEMA`."""

    score: float | None
    level_id: str | None
    reason: str | None
    evidence: str | None
    rationale: str | None = None


class CriterionScore(NamedTuple):
    """Verdict on one criterion.

    score: 0..1, None where unscored; `reason` says why. needs: score from which the criterion is met; None without one.
    """

    criterion_id: str
    description: str
    method: str
    score: float | None
    level_id: str | None = None
    reason: str | None = None
    evidence: str | None = None
    rationale: str | None = None
    weight: float = 1.0
    is_gate: bool = False
    needs: float | None = None
    is_rewarded: bool = True

    @property
    def is_met(self) -> bool | None:
        """Whether the score reaches `needs`; None if it is unknown or nothing is needed."""
        if self.score is None or self.needs is None:
            return None
        return self.score >= self.needs - _TOLERANCE


_VERDICT = CriterionScore._fields.index("score")  # from here, the fields of a verdict


@dataclass(frozen=True)
class Score:
    """Score of one output: `score` in 0..1, None where a weighted criterion is unscored, with its bounds.

    unscored_reason: why there is no score, as in the table `output_scores`; None where there is one.
    reward: the score as a trainer takes it, see `Scorer`; None where nothing is rewarded. is_passed: None where
    unknown, or where the rubric requires nothing.
    """

    output_id: str
    score: float | None
    score_low: float | None
    score_high: float | None
    is_passed: bool | None
    failed_gates: tuple[str, ...]
    unscored_reason: str | None
    reward: Reward | None
    pass_threshold: float | None
    _parts: Sequence[CriterionScore] = field(repr=False)  # without a verdict
    _verdicts: Sequence[Verdict] = field(repr=False)

    @cached_property
    def criteria(self) -> Mapping[str, CriterionScore]:
        """Verdicts by criterion id, in the rubric's order, then on the output's own criteria."""
        return {
            part.criterion_id: CriterionScore._make((*part[:_VERDICT], *verdict, *part[_VERDICT + len(verdict) :]))
            for part, verdict in zip(self._parts, self._verdicts, strict=True)
        }

    @property
    def unscored(self) -> dict[str, str]:
        """Reasons of the criteria without a score, by criterion id."""
        return {each.criterion_id: each.reason or "unknown" for each in self.criteria.values() if each.score is None}

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "output_id": self.output_id,
            "score": self.score,
            "score_low": self.score_low,
            "score_high": self.score_high,
            "is_passed": self.is_passed,
            "failed_gates": list(self.failed_gates),
            "unscored_reason": self.unscored_reason,
            "reward": None if self.reward is None else self.reward.value,
            "criteria": [each._asdict() for each in self.criteria.values()],
        }

    def __str__(self) -> str:
        """The score, then its criteria as a table."""
        needed = "" if self.pass_threshold is None else f", needs {self.pass_threshold:g}"
        state = {True: "passed", False: "not passed", None: "no verdict"}[self.is_passed]
        why = f" ({self.unscored_reason})" if self.unscored_reason else ""
        gates = f"; failed gates: {', '.join(self.failed_gates)}" if self.failed_gates else ""
        return "\n".join([f"score {_shown(self.score)}{why}{needed}: {state}{gates}", *self._table()])

    def _table(self) -> list[str]:
        rows = [("criterion", "score", "needs", "level", "why")]
        rows += [
            (
                each.criterion_id,
                _shown(each.score),
                "" if each.needs is None else f"{each.needs:g}",
                each.level_id or "",
                _cut(each.reason or each.rationale or each.evidence or ""),
            )
            for each in self.criteria.values()
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _shown(score: float | None) -> str:
    return "unscored" if score is None else f"{score:.3f}".rstrip("0").rstrip(".")


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDEST else f"{line[: _WIDEST - 3]}..."
