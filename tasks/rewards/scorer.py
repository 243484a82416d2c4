"""RubricScorer: all criteria of a rubric over single outputs, in this process."""

import asyncio
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import TimeoutError as Timeout
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from gradebook.rubrics.model.digests import digest_of
from gradebook.rubrics.model.errors import InputError, JudgeSettingsError, UnfinishedError
from gradebook.rubrics.model.rewards import Gates, Reward, RewardRule
from gradebook.rubrics.model.rubric import CaseCriterion, Criterion, Rubric
from gradebook.rubrics.model.scores import OutputScore, ScoreRule
from gradebook.tasks.judging.money.prices import find_price, refuse_unpriced
from gradebook.tasks.judging.replies.recorded_judge import check_replies
from gradebook.tasks.judging.settings.files import read_judge
from gradebook.tasks.judging.settings.judge import JudgeSettings, ReplaySettings
from gradebook.tasks.judging.settings.keys import refuse_unpaired_keys
from gradebook.tasks.judging.settings.panels import Judge, members_of, online_members
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.rewards.asking import Asking, Batch, unjudged
from gradebook.tasks.rewards.computing import CodeScorer, Verdicts
from gradebook.tasks.rewards.rows import Given, ReadOutput, RowReader, refuse_misfits, rows_of_batch
from gradebook.tasks.rewards.scored import CriterionScore, Score, Verdict
from gradebook.tasks.rubric_store.given import GivenRubric, load_rubric
from gradebook.tasks.runs.function_settings import read_function_settings, refuse_other_functions, runnable_functions
from gradebook.tasks.scoring.functions import FunctionPool, probe_functions

NOTHING = "Every criterion is met."


@dataclass(frozen=True, slots=True)
class Mending:
    """One criterion that is not met. best: its best level in words. why: the judge's reason, or what was found."""

    criterion_id: str
    description: str
    level_id: str | None
    best: str
    why: str


@dataclass(frozen=True, slots=True)
class Feedback:
    """Criteria that an output does not meet, the heaviest first.

    is_done: whether a retry loop may stop: all criteria are met, as far as they are scored. unscored: criteria that
    nothing scored. Criteria with `reward: false` are left out: a model that reads them would answer to them.
    """

    is_done: bool
    mendings: tuple[Mending, ...]
    unscored: tuple[str, ...]

    def __str__(self) -> str:
        if not self.mendings:
            return NOTHING
        lines = ["Please mend this:"]
        for each in self.mendings:
            lines.append(f"- {each.description}")
            lines += [f"  Found: {each.why}"] if each.why else []
            lines += [f"  Wanted: {each.best}"] if each.best else []
        return "\n".join(lines)


def feedback_on(score: Score, rubric: Rubric, own: tuple[CaseCriterion, ...]) -> Feedback:
    """Feedback from the verdicts on an output; a criterion without a threshold is met at its best level."""
    known: dict[str, Criterion] = {each.id: each for each in (*rubric.criteria, *own)}
    counted = [each for each in score.criteria.values() if each.is_rewarded]
    unmet = [each for each in counted if _is_unmet(each, known[each.criterion_id])]
    unmet.sort(key=lambda each: (not each.is_gate, -abs(each.weight)))
    unscored = tuple(each.criterion_id for each in counted if each.score is None)
    return Feedback(
        not unmet and not unscored, tuple(_mending(each, known[each.criterion_id]) for each in unmet), unscored
    )


def _is_unmet(found: CriterionScore, criterion: Criterion) -> bool:
    if found.score is None:
        return False
    if found.weight < 0:  # a penalty: its top level is the bad one
        return found.score > criterion.ranked_levels[0].score
    return not found.is_met if found.needs is not None else found.score < criterion.ranked_levels[-1].score


def _mending(found: CriterionScore, criterion: Criterion) -> Mending:
    best = criterion.ranked_levels[0 if found.weight < 0 else -1]
    why = found.rationale or found.evidence or ""
    return Mending(found.criterion_id, criterion.description, found.level_id, best.description, why)


NO_JUDGE = "no_judge: the scorer has no judge"
NO_VERDICT = Verdict(None, None, "not_scored", None)
MOST_KNOWN = 10_000  # different verdicts on an output whose totals are remembered
OnFault = Literal["none", "raise"]
Scores = list[Score]
Rewards = list[float | None]


class RubricScorer:
    """Scorer of single outputs by a rubric; also a reward function as TRL calls it.

    Every call is thread-safe, works while an event loop runs and after a fork. An output that can't be scored gets
    None with the reasons in `Score.unscored`, never 0.
    """

    def __init__(  # noqa: PLR0913 - each is a setting with a default
        self,
        rubric: GivenRubric,
        judge: str | None = None,
        *,
        deadline_s: float | None = None,
        budget_usd: float | None = None,
        on_fault: OnFault = "none",
        gates: str = "veto",
        lake: str | Lake | None = None,
        data: str | None = None,
        job: str | None = None,
        column_map: Mapping[str, str] | None = None,
        allow_functions: Iterable[str] = (),
    ) -> None:
        """rubric: as `load_rubric` takes it; copied, so that a later change has no effect.

        judge: a model's name, a judge file or replay:FILE, as `--judge`; None leaves judged criteria unscored.
        deadline_s: most seconds of a call; criteria without an answer by then are unscored, and the answer counts for
        the next call. budget_usd: maximum spend of this scorer. on_fault: `none` scores None if the judge fails or the
        budget is reached, `raise` raises `EndpointUnavailable` or `BudgetReached`. gates: effect of a failed gate on a
        reward: veto (the lowest score), penalty=X (X off for each) or ignore. lake: URI of a lake whose ledger is read
        and extended, so that no judgment is paid twice; default: none. data: location of its Parquet files. job: name
        under which the lake counts the spend, so that budget_usd holds over restarts; one process at a time has it.
        column_map: your columns by gradebook's names, as `--map`: {"reference": "answer"}. allow_functions: packages
        whose functions may run. Raises `InputError`.
        """
        _refuse_settings(on_fault, deadline_s, budget_usd, job, lake)
        self.rubric = load_rubric(rubric).model_copy(deep=True)
        self.__name__ = self.rubric.id  # trainers log a reward function by its name
        self._deadline_s, self._on_fault = deadline_s, on_fault
        self._gates = Gates.read(gates)
        self._rule = ScoreRule(self.rubric)
        self._reward_rule = _reward_rule(self.rubric, self._gates)
        self._reader = RowReader(self.rubric, column_map or {})
        self._column_map = dict(column_map or {})
        functions = read_function_settings(Path.cwd(), os.environ, allow_functions)
        refuse_other_functions(self.rubric, functions)
        probe_functions(self.rubric, functions)
        has_functions = bool(runnable_functions(self.rubric, functions))
        self._functions = FunctionPool(functions) if has_functions else None
        self._code = CodeScorer(self.rubric, self._functions)
        read = None if judge is None else _quick_judge(judge, self.rubric, budget_usd)
        found = find_lake(lake, data) if isinstance(lake, str) else lake
        self._asking = None if read is None else Asking(self.rubric, read, budget_usd, found, job=job)
        self._parts = tuple(_part(each) for each in self.rubric.criteria)
        self._known: dict[tuple[float | None, ...], tuple[OutputScore, Reward | None]] = {}
        self._last: _Last | None = None
        self._last_lock = threading.Lock()

    # -------- scores
    def score(self, output: Given) -> Score:
        """Score one output: a text, or a row with `output` and, as they are there, prompt, reference and context.

        Raises `OutputsError` for a row that does not fit, and with on_fault="raise" `UnfinishedError`.
        """
        return self.score_all([output])[0]

    def score_all(self, outputs: Iterable[Given]) -> Scores:
        """Score outputs together, as `score`."""
        return self._score(self._reader.read(outputs))

    async def ascore(self, output: Given) -> Score:
        """As `score`, without blocking the event loop while a judge answers."""
        return (await self.ascore_all([output]))[0]

    async def ascore_all(self, outputs: Iterable[Given]) -> Scores:
        """As `score_all`, without blocking the event loop while a judge answers."""
        read = self._reader.read(outputs)
        batch = self._start(read)
        end = self._end()
        code = await asyncio.to_thread(self._code.score, read) if self._code.has_work(read) else {}
        if batch is not None:
            waiting = asyncio.shield(asyncio.wrap_future(batch.done))
            waiting.add_done_callback(_retrieve)
            with suppress(TimeoutError, UnfinishedError):  # `_finish` reads both off the batch
                await asyncio.wait_for(waiting, None if end is None else max(end - time.monotonic(), 0))
        return self._finish(read, batch, code)

    def feedback(self, output: Given) -> Feedback:
        """Faults that the output has to mend, as a text for the model that answers again."""
        (read,) = self._reader.read([output])
        return feedback_on(self._score([read])[0], self.rubric, read.own)

    def expected_s(self, count: int) -> float:
        """Seconds until the judge has answered about `count` further outputs, by its pace so far.

        0 where nothing waits for it, or its pace is unknown.
        """
        return 0.0 if self._asking is None else self._asking.expected_s(count * len(self.rubric.judged_criteria))

    # -------- rewards
    def __call__(
        self, prompts: Sequence[Any] | None = None, completions: Sequence[Any] = (), **columns: Any
    ) -> Rewards:
        """Rewards of a batch, as TRL calls a reward function: a float each, None where unscored.

        columns: further columns of the dataset; those named as a column of outputs, or mapped to one, are read as it.
        Completions in chat form count with the last message of the assistant. Raises `OutputsError` if no row of the
        batch fits.
        """
        return [_value(each) for each in self.score_batch(prompts, completions, columns)]

    def score_batch(
        self, prompts: Sequence[Any] | None, completions: Sequence[Any], columns: Mapping[str, Any], caller: str = ""
    ) -> list[Score | None]:
        """Scores of a trainer's batch, with their rewards; None where a row does not fit.

        caller: name of a criterion whose function asks; the functions of all criteria share one scoring.
        """
        rows = rows_of_batch(prompts, completions, columns, self._column_map)
        read = self._reader.read_each(rows)
        good = [each for each in read if isinstance(each, ReadOutput)]
        if read and (not good or self._on_fault == "raise"):
            refuse_misfits(read)
        scores = iter(self._scored_once(good, caller))
        return [next(scores) if isinstance(each, ReadOutput) else None for each in read]

    def criteria(self) -> list["CriterionReward"]:
        """One reward function a rewarded criterion, gates among them, for a trainer that weighs them by itself.

        Each gives the criterion's score, None where unscored; one batch is scored once for all. `weights` has theirs.
        """
        return [CriterionReward(self, each.id) for each in self.rubric.criteria if each.reward]

    @property
    def weights(self) -> list[float]:
        """Weights of `criteria`, in their order: 0 for a gate, below 0 for a penalty."""
        return [each.weight for each in self._parts if each.is_rewarded]

    @property
    def judge(self) -> str | None:
        """Name of the judge, as in the tables; None without one."""
        return None if self._asking is None else self._asking.judge.judge

    # -------- ends
    def close(self) -> None:
        """Release what is open; replies go to the lake's ledger. A later call opens it again, but not functions."""
        if self._asking is not None:
            self._asking.close()
        if self._functions is not None:
            self._functions.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        judge = "" if self.judge is None else f", judge {self.judge}"
        return f"<{type(self).__name__} {self.rubric.id} {self.rubric.version}{judge}>"

    # -------- inside
    def _scored_once(self, read: list[ReadOutput], caller: str) -> Scores:
        """Scores of a batch, once for all callers; one that asks for the same batch again has it scored again."""
        key = digest_of("".join(each.output_id for each in read))
        with self._last_lock:
            last = self._last
            if last is not None and last.key == key and caller not in last.callers:
                last.callers.add(caller)
                return last.scores
        scores = self._score(read)
        with self._last_lock:
            self._last = _Last(key, scores, {caller})
        return scores

    def _score(self, read: Sequence[ReadOutput]) -> Scores:
        batch, end = self._start(read), self._end()
        code = self._code.score(read)
        if batch is not None:
            with suppress(Timeout, UnfinishedError):
                batch.done.result(None if end is None else max(end - time.monotonic(), 0))
        return self._finish(read, batch, code)

    def _start(self, read: Sequence[ReadOutput]) -> Batch | None:
        return self._asking.start(read) if self._asking is not None and read else None

    def _end(self) -> float | None:
        return None if self._deadline_s is None else time.monotonic() + self._deadline_s

    def _finish(self, read: Sequence[ReadOutput], batch: Batch | None, code: Verdicts) -> Scores:
        """Scores from the verdicts of code and the judge's answers so far. Raises the judge's fault if it has to."""
        verdicts = dict(code)
        if batch is None or self._asking is None:
            verdicts |= unjudged(self.rubric, read, NO_JUDGE)
        else:
            verdicts |= self._asking.verdicts(batch, self._missing(batch))
        return [self._scored(place, each, verdicts) for place, each in enumerate(read)]

    def _missing(self, batch: Batch) -> str:
        """Reason of criteria that the judge did not answer."""
        if not batch.done.done():
            return f"deadline: the judge did not answer within {self._deadline_s:g} s"
        fault = batch.done.exception()
        if fault is None:
            return "not_asked"
        if self._on_fault == "raise" or not isinstance(fault, UnfinishedError):
            raise fault
        return f"{_FAULTS.get(type(fault).__name__, 'unfinished')}: {fault}"

    def _scored(self, place: int, read: ReadOutput, verdicts: Verdicts) -> Score:
        parts = (*self._parts, *(_part(each) for each in read.own)) if read.own else self._parts
        found = [verdicts.get((place, part.criterion_id), NO_VERDICT) for part in parts]
        total, reward = self._totals(tuple(verdict.score for verdict in found), read.own)
        return Score(
            read.output_id,
            total.score,
            total.score_low,
            total.score_high,
            total.is_passed,
            total.failed_gates,
            total.unscored_reason,
            reward,
            self.rubric.pass_threshold,
            parts,
            found,
        )

    def _totals(
        self, found: tuple[float | None, ...], own: tuple[CaseCriterion, ...]
    ) -> tuple[OutputScore, Reward | None]:
        """Score and reward from the scores by criterion; remembered, as checks give few different ones."""
        known = None if own else self._known.get(found)
        if known is not None:
            return known
        names = (*(part.criterion_id for part in self._parts), *(each.id for each in own))
        scores = dict(zip(names, found, strict=True))
        reward = None if self._reward_rule is None else self._reward_rule.reward(scores, own)
        totals = self._rule.score(scores, own), reward
        if not own and len(self._known) < MOST_KNOWN:
            self._known[found] = totals
        return totals


def _refuse_settings(
    on_fault: OnFault, deadline_s: float | None, budget_usd: float | None, job: str | None, lake: str | Lake | None
) -> None:
    if on_fault not in ("none", "raise"):
        raise InputError("on_fault", repr(on_fault), "none or raise")
    if deadline_s is not None and not 0 < deadline_s < float("inf"):
        raise InputError("deadline_s", f"{deadline_s:g}", "seconds, above 0")
    if job is not None and lake is None:
        raise InputError("job", f"{job!r} without a lake", "a lake, which counts its spend")
    if budget_usd is not None and not 0 <= budget_usd < float("inf"):
        raise InputError("budget_usd", f"{budget_usd:g}", "dollars, 0 or more")


def score_stored(scorer: RubricScorer, outputs: Sequence[ReadOutput]) -> Scores:
    """Score outputs of a lake."""
    return scorer._score(outputs)


@dataclass(frozen=True, slots=True)
class _Last:
    """Last batch of rewards, and the functions that took it."""

    key: str
    scores: Scores
    callers: set[str]


class CriterionReward:
    """Reward function of one criterion, as TRL calls it."""

    def __init__(self, scorer: RubricScorer, criterion_id: str) -> None:
        self._scorer, self.criterion_id = scorer, criterion_id
        self.__name__ = criterion_id

    def __call__(
        self, prompts: Sequence[Any] | None = None, completions: Sequence[Any] = (), **columns: Any
    ) -> Rewards:
        """Scores of the criterion, a float each, None where unscored."""
        scores = self._scorer.score_batch(prompts, completions, columns, self.criterion_id)
        return [None if each is None else each.criteria[self.criterion_id].score for each in scores]


_FAULTS = {"BudgetReached": "budget_reached", "EndpointUnavailable": "endpoint_error"}


def _value(score: Score | None) -> float | None:
    return None if score is None or score.reward is None else score.reward.value


def _retrieve(waiting: "asyncio.Future[None]") -> None:
    """Mark an error as seen: the batch has it too."""
    if not waiting.cancelled():
        waiting.exception()


def _reward_rule(rubric: Rubric, gates: Gates) -> RewardRule | None:
    """None for a rubric without a weighted criterion that is rewarded: its outputs have no reward."""
    with suppress(InputError):
        return RewardRule(rubric, gates)
    return None


def checked_judge(name: str, rubric: Rubric, budget_usd: float | None) -> Judge:
    """Judge of a name, checked as a run checks it. Raises `JudgeSettingsError`."""
    judge = read_judge(name, os.environ)
    for member in members_of(judge):
        if isinstance(member, ReplaySettings):
            check_replies(member.path, rubric.criteria)
        elif member.mode == "batch":
            raise JudgeSettingsError(name, "a judge with batch requests", "one that answers at once")
    for online in online_members(judge):
        _checked_online(online, budget_usd)
    return judge


def _quick_judge(name: str, rubric: Rubric, budget_usd: float | None) -> Judge:
    """Judge as `checked_judge`, which a call does not have to wait minutes for. Raises `JudgeSettingsError`."""
    judge = checked_judge(name, rubric, budget_usd)
    if any(each.batch_command is not None for each in online_members(judge)):
        found = "a judge with a batch_command, whose program would start for each call"
        raise JudgeSettingsError(
            name, found, "a server of the same model, or `gradebook evaluate`, which starts it once"
        )
    return judge


def _checked_online(online: JudgeSettings, budget_usd: float | None) -> None:
    refuse_unpaired_keys(online, os.environ)
    if budget_usd is not None:
        refuse_unpriced(online, find_price(online))


def _part(criterion: Criterion) -> CriterionScore:
    """A criterion's columns that no output changes."""
    return CriterionScore(
        criterion.id,
        criterion.description,
        criterion.method.type,
        None,
        weight=criterion.own_weight,
        is_gate=criterion.gate,
        needs=criterion.gate_threshold if criterion.gate else criterion.threshold,
        is_rewarded=criterion.reward,
    )
