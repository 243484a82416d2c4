"""Sequential stopping of a run as stored in its folder: plan of the interim analyses, and outcome of the last one."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from gradebook.rubrics.statistics.series import REFERENCE_ALPHA
from gradebook.rubrics.text.wording import counted, difference_interval_words, signed_words
from gradebook.tasks.comparing.sides import Groups
from gradebook.tasks.lake.rows import Row, model_name, pair_name
from gradebook.tasks.system.files import write_text
from gradebook.tasks.workspace.folder import RunFolder

Decision = Literal["worse", "better", "not worse", "undecided"]


@dataclass(frozen=True, slots=True)
class PlannedPair:
    """Pair of models. unit_count: cases, or named clusters of cases, that the baseline has a score of."""

    model_a: str
    checkpoint_a: str | None
    model_b: str
    checkpoint_b: str | None
    unit_count: int

    @property
    def groups(self) -> Groups:
        """The pair, as comparisons name it."""
        of_a, of_b = (self.model_a, self.checkpoint_a), (self.model_b, self.checkpoint_b)
        a, b = ({"model": model, "checkpoint": checkpoint} for model, checkpoint in (of_a, of_b))
        return a, b

    @property
    def name(self) -> str:
        """Model, or both if they differ."""
        return pair_name(*map(model_name, self.groups))


@dataclass(frozen=True, slots=True)
class StopPlan:
    """Interim analyses of a run. baseline_run_id: None where nothing can stop the run, for the given reason.

    seed: of the order of the cases. alpha: of all analyses together. margin: of `not_worse_by`, 0 without it. ends:
    first position of the order after each analysis; case_counts: cases up to there. block_counts: shards of each
    block; there is one more block than analyses if the baseline lacks some cases, which then come last.
    """

    rule: str
    seed: int
    case_count: int
    alpha: float = REFERENCE_ALPHA
    margin: float = 0.0
    baseline_run_id: str | None = None
    reason: str | None = None
    pairs: tuple[PlannedPair, ...] = ()
    ends: tuple[int, ...] = ()
    case_counts: tuple[int, ...] = ()
    block_counts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PairAnalysis:
    """Comparison of a pair of models at the last interim analysis.

    low, high: interval of mean_diff that holds at every analysis. decided_at: number of the analysis that
    decided, from 1. n: pairs compared. level: of the test at the last one.
    """

    pair: str
    decision: Decision
    decided_at: int | None
    n: int
    mean_diff: float | None
    low: float | None
    high: float | None
    level: float


@dataclass(frozen=True, slots=True)
class Stopping:
    """Outcome of the last interim analysis. judged_count: cases that are judged. look: its number, from 1."""

    rule: str
    seed: int
    margin: float
    baseline_run_id: str
    case_count: int
    judged_count: int
    look: int
    look_count: int
    pairs: tuple[PairAnalysis, ...]

    @property
    def is_decided(self) -> bool:
        """Whether every pair of models is decided."""
        return all(pair.decision != "undecided" for pair in self.pairs)

    @property
    def stopped_at(self) -> int | None:
        """Number of judged cases of a run that stopped early; None for others."""
        return self.judged_count if self.is_decided and self.judged_count < self.case_count else None

    @property
    def factor(self) -> float:
        """Number by which each p of the comparison is multiplied, and alpha divided: see `Asked.chosen_from`."""
        return max(REFERENCE_ALPHA / pair.level for pair in self.pairs)

    @property
    def brief(self) -> str:
        """Outcome in a few words: stopped after 120 of 400 cases: worse."""
        decisions = [
            f"{f'{analysis.pair} ' if len(self.pairs) > 1 else ''}{self._decision_words(analysis)}"
            for analysis in self.pairs
        ]
        if self.stopped_at is None:
            return f"--stop {self.rule} judged all {counted(self.case_count, 'case')}: {'; '.join(decisions)}"
        return f"stopped after {self.judged_count:,} of {counted(self.case_count, 'case')}: {'; '.join(decisions)}"

    @property
    def sentence(self) -> str:
        """Outcome with its figures."""
        scope = "of the whole suite" if self.rule == "suite" else "which allows for every look"
        figures = [
            f"{f'{analysis.pair} ' if len(self.pairs) > 1 else ''}{signed_words(analysis.mean_diff)} overall, "
            f"95% interval {difference_interval_words(analysis.low, analysis.high)} {scope}"
            for analysis in self.pairs
        ]
        return f"{self.brief} ({'; '.join(figures)})"

    def as_json(self) -> dict[str, object]:
        """Part of `runs.settings`."""
        outcome = {"stopped_at": self.stopped_at, "factor": self.factor, "brief": self.brief, "sentence": self.sentence}
        return asdict(self) | outcome

    def _decision_words(self, pair: PairAnalysis) -> str:
        decision: str = pair.decision
        if self.margin and pair.decision in ("worse", "not worse"):
            decision += f" by {self.margin:g}" if pair.decision == "not worse" else f" by more than {self.margin:g}"
        is_of_suite = self.rule == "suite" and decision != "undecided"
        return f"{decision} on these {counted(self.case_count, 'case')}" if is_of_suite else decision


def store_stopping(folder: RunFolder, stopping: Stopping) -> None:
    write_text(folder.stopping_file, json.dumps(asdict(stopping)))


def stored_stopping(folder: RunFolder) -> Stopping | None:
    """Outcome of the last interim analysis; None without one."""
    if not folder.stopping_file.exists():
        return None
    stored = json.loads(folder.stopping_file.read_text(encoding="utf-8"))
    return Stopping(**stored | {"pairs": tuple(PairAnalysis(**pair) for pair in stored["pairs"])})


def stopped_words(run: Row) -> str | None:
    """How a published run stopped early, in a few words; None for others. run: its row of `runs`."""
    if run.get("stopped_at") is None:
        return None
    return str(json.loads(run["settings"])["stopping"]["brief"])


def stopped_by_suite(run: Row) -> bool:
    """Whether a published run stopped because the result on its own suite was known; new cases may differ."""
    return run.get("stopped_at") is not None and json.loads(run["settings"])["stopping"]["rule"] == "suite"


def store_plan(folder: RunFolder, plan: StopPlan) -> None:
    write_text(_plan_file(folder), json.dumps(asdict(plan)))


def stored_plan(folder: RunFolder) -> StopPlan | None:
    """Plan of the interim analyses; None before it is made."""
    if not _plan_file(folder).exists():
        return None
    stored = json.loads(_plan_file(folder).read_text(encoding="utf-8"))
    lists = {name: tuple(stored[name]) for name in ("ends", "case_counts", "block_counts")}
    return StopPlan(**stored | lists | {"pairs": tuple(PlannedPair(**pair) for pair in stored["pairs"])})


def _plan_file(folder: RunFolder) -> Path:
    return folder.block_folder / "plan.json"
