"""RubricScorer: all criteria of a rubric over single outputs, in this process."""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Timeout
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from gradebook.rubrics.model.conditions import unmet_words
from gradebook.rubrics.model.errors import InputError, JudgeSettingsError, UnfinishedError
from gradebook.rubrics.model.json_values import digest_of
from gradebook.rubrics.model.rubric import CaseCriterion, Criterion, Rubric
from gradebook.rubrics.model.scores import Gates, OutputScore, Reward, RewardRule, ScoreRule
from gradebook.tasks.judging.prices import find_price, refuse_unpriced
from gradebook.tasks.judging.replies.recorded_judge import check_replies
from gradebook.tasks.judging.settings.files import read_judge
from gradebook.tasks.judging.settings.judge import Judge, JudgeSettings
from gradebook.tasks.judging.settings.keys import refuse_unpaired_keys
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.methods.function import FunctionPool, probe_functions
from gradebook.tasks.rewards.asking import Asking, Batch, unjudged
from gradebook.tasks.rewards.by_shard import ShardBatch, ShardScorer
from gradebook.tasks.rewards.computing import CodeScorer, Verdicts
from gradebook.tasks.rewards.outputs import (
    CriterionScore,
    Given,
    ReadOutput,
    RowReader,
    Score,
    Verdict,
    refuse_misfits,
    rows_of_batch,
    with_unmet,
)
from gradebook.tasks.rubric_store.versions import GivenRubric, load_rubric
from gradebook.tasks.runs.function_settings import (
    function_of,
    read_function_settings,
    refuse_other_functions,
    runnable_functions,
)

NOTHING = "Every criterion is met."


@dataclass(frozen=True, slots=True)
class Mending:
    """Unmet criterion. best: description of its best level. why: the judge's reason, or the check's observation."""

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
        lines = ["Please fix this:"]
        for mending in self.mendings:
            lines.append(f"- {mending.description}")
            lines += [f"  Found: {mending.why}"] if mending.why else []
            lines += [f"  Wanted: {mending.best}"] if mending.best else []
        return "\n".join(lines)


def _without_callables(rubric: Rubric, callables: Mapping[str, Callable[..., Any]]) -> Rubric:
    """Rubric without the criteria that callables score. Raises `InputError` for a callable that no criterion names."""
    function_names = {name for criterion in rubric.criteria if (name := function_of(criterion))}
    for name, function in callables.items():
        if name not in function_names:
            expected = ", ".join(sorted(function_names)) or "criteria of the method function in the rubric"
            raise InputError("functions", repr(name), expected)
        if not callable(function):
            raise InputError(f"functions: {name}", f"a {type(function).__name__}", "a callable")
    return rubric.model_copy(
        update={
            "criteria": tuple(criterion for criterion in rubric.criteria if function_of(criterion) not in callables)
        }
    )


def feedback_on(score: Score, rubric: Rubric, own: tuple[CaseCriterion, ...]) -> Feedback:
    """Feedback from the verdicts on an output; a criterion without a threshold is met at its best level."""
    criteria: dict[str, Criterion] = {criterion.id: criterion for criterion in (*rubric.criteria, *own)}
    verdicts = [verdict for verdict in score.criteria.values() if verdict.is_rewarded]
    unmet = [verdict for verdict in verdicts if _is_unmet(verdict, criteria[verdict.criterion_id])]
    unmet.sort(key=lambda verdict: (not verdict.is_gate, -abs(verdict.weight)))
    unscored = tuple(
        verdict.criterion_id for verdict in verdicts if verdict.score is None and unmet_words(verdict.reason) is None
    )
    return Feedback(
        not unmet and not unscored,
        tuple(_mending(verdict, criteria[verdict.criterion_id]) for verdict in unmet),
        unscored,
    )


def _is_unmet(verdict: CriterionScore, criterion: Criterion) -> bool:
    if verdict.score is None:
        return False
    if verdict.weight < 0:  # a penalty: its top level is the bad one
        return verdict.score > criterion.ranked_levels[0].score
    return not verdict.is_met if verdict.needs is not None else verdict.score < criterion.ranked_levels[-1].score


def _mending(verdict: CriterionScore, criterion: Criterion) -> Mending:
    best = criterion.ranked_levels[0 if verdict.weight < 0 else -1]
    why = verdict.rationale or verdict.evidence or ""
    return Mending(verdict.criterion_id, criterion.description, verdict.level_id, best.description, why)


NO_JUDGE = "no_judge: the scorer has no judge"
NO_VERDICT = Verdict(None, None, "not_scored", None)
MOST_CACHED_TOTALS = 10_000  # combinations of criterion scores whose totals are cached
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
        baseline: str | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
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
        whose functions may run. baseline: published run of the lake, whose answers preferences and similarities compare
        with, and whose cases are the other cases of similarities; None: these are the cases of the same call.
        functions: your own callables by the names that the rubric has for them, `module.path:name`; they run in this
        process, without limits, and need no allowance. Raises `InputError`.
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
        callables = dict(functions or {})
        remaining_rubric = _without_callables(self.rubric, callables)
        settings = read_function_settings(Path.cwd(), os.environ, allow_functions)
        refuse_other_functions(remaining_rubric, settings)
        probe_functions(remaining_rubric, settings)
        has_functions = bool(runnable_functions(remaining_rubric, settings))
        self._functions = FunctionPool(settings) if has_functions else None
        self._code = CodeScorer(self.rubric, self._functions, callables)
        quick_judge = None if judge is None else _quick_judge(judge, self.rubric, budget_usd)
        found_lake = find_lake(lake, data) if isinstance(lake, str) else lake
        self._asking = (
            None if quick_judge is None else Asking(self.rubric, quick_judge, budget_usd, found_lake, job=job)
        )
        self._by_shard = ShardScorer(self.rubric, self._asking, found_lake, baseline)
        self._unscored_parts = tuple(_columns_of(criterion) for criterion in self.rubric.criteria)
        self._totals_cache: dict[tuple[float | None, ...], tuple[OutputScore, Reward | None]] = {}
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
        """Score one output as `score` does, without blocking the event loop while a judge answers."""
        return (await self.ascore_all([output]))[0]

    async def ascore_all(self, outputs: Iterable[Given]) -> Scores:
        """Score outputs as `score_all` does, without blocking the event loop while a judge answers."""
        rows = self._reader.read(outputs)
        started = self._start(rows)
        deadline = self._deadline()
        code = await asyncio.to_thread(self._code.score, rows) if self._code.has_work(rows) else {}
        for done in started.waiting:
            waiting = asyncio.shield(asyncio.wrap_future(done))
            waiting.add_done_callback(_retrieve)
            with suppress(TimeoutError, UnfinishedError):  # `_finish` reports both
                await asyncio.wait_for(waiting, None if deadline is None else max(deadline - time.monotonic(), 0))
        return self._finish(rows, started, code)

    def feedback(self, output: Given) -> Feedback:
        """Criteria that the output does not meet, as a text for the model that answers again."""
        (row,) = self._reader.read([output])
        return feedback_on(self._score([row])[0], self.rubric, row.own)

    def expected_s(self, count: int) -> float:
        """Seconds until the judge has answered about `count` further outputs, by its pace so far.

        0 if no question is open, or the pace is unknown.
        """
        return 0.0 if self._asking is None else self._asking.expected_s(count * len(self.rubric.judged_criteria))

    # -------- rewards
    def __call__(
        self, prompts: Sequence[Any] | None = None, completions: Sequence[Any] = (), **columns: Any
    ) -> Rewards:
        """Rewards of a batch, as TRL calls a reward function: a float each, None where unscored.

        columns: further columns of the dataset; a column with the name of an outputs' column, or mapped to one, is
        used. Completions in chat form count with the last message of the assistant. Raises `OutputsError` if no row of
        the batch fits.
        """
        return [_value(score) for score in self.score_batch(prompts, completions, columns)]

    def score_batch(
        self, prompts: Sequence[Any] | None, completions: Sequence[Any], columns: Mapping[str, Any], caller: str = ""
    ) -> list[Score | None]:
        """Scores of a trainer's batch, with their rewards; None where a row does not fit.

        caller: name of a criterion whose function asks; the functions of all criteria share one scoring.
        """
        rows = rows_of_batch(prompts, completions, columns, self._column_map)
        outputs_or_faults = self._reader.read_each(rows)
        outputs = [row for row in outputs_or_faults if isinstance(row, ReadOutput)]
        if outputs_or_faults and (not outputs or self._on_fault == "raise"):
            refuse_misfits(outputs_or_faults)
        scores = iter(self._scored_once(outputs, caller))
        return [next(scores) if isinstance(row, ReadOutput) else None for row in outputs_or_faults]

    def criteria(self) -> list["CriterionReward"]:
        """One reward function per rewarded criterion, including gates, for a trainer that weights them itself.

        Each gives the criterion's score, None where unscored; one batch is scored once for all. `weights` has their
        weights.
        """
        return [CriterionReward(self, criterion.id) for criterion in self.rubric.criteria if criterion.reward]

    @property
    def weights(self) -> list[float]:
        """Weights of `criteria`, in their order: 0 for a gate, below 0 for a penalty."""
        return [row.weight for row in self._unscored_parts if row.is_rewarded]

    @property
    def judge(self) -> str | None:
        """Name of the judge, as in the tables; None without a judge."""
        return None if self._asking is None else self._asking.judge.judge

    # -------- ends
    def close(self) -> None:
        """Close sessions, files and function processes; replies go to the lake's ledger.

        A later call reopens all but functions.
        """
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
    def _scored_once(self, rows: list[ReadOutput], caller: str) -> Scores:
        """Scores of a batch, computed once for all callers. If a caller repeats a batch, it is scored again."""
        key = digest_of("".join(output.output_id for output in rows))
        with self._last_lock:
            last_batch = self._last
            if last_batch is not None and last_batch.key == key and caller not in last_batch.callers:
                last_batch.callers.add(caller)
                return last_batch.scores
        scores = self._score(rows)
        with self._last_lock:
            self._last = _Last(key, scores, {caller})
        return scores

    def _score(self, rows: Sequence[ReadOutput]) -> Scores:
        started, deadline = self._start(rows), self._deadline()
        code = self._code.score(rows)
        for done in started.waiting:
            with suppress(Timeout, UnfinishedError):
                done.result(None if deadline is None else max(deadline - time.monotonic(), 0))
        return self._finish(rows, started, code)

    def _start(self, rows: Sequence[ReadOutput]) -> "_Started":
        batch = self._asking.start(rows) if self._asking is not None and rows else None
        return _Started(batch, self._by_shard.start(rows))

    def _deadline(self) -> float | None:
        return None if self._deadline_s is None else time.monotonic() + self._deadline_s

    def _finish(self, rows: Sequence[ReadOutput], started: "_Started", code: Verdicts) -> Scores:
        """Scores from the verdicts of code and the judge's answers so far.

        Raises the judge's fault with on_fault="raise".
        """
        verdicts = dict(code)
        batch, by_shard = started
        if batch is None or self._asking is None:
            verdicts |= unjudged(self.rubric, rows, NO_JUDGE)
        else:
            verdicts |= self._asking.verdicts(batch, self._missing(batch.done))
        if by_shard is not None:
            reason = NO_JUDGE if self._asking is None else self._missing(by_shard.done)
            unanswered = Verdict(None, None, reason, None)
            indices = range(len(rows))
            verdicts |= {
                (index, criterion.id): unanswered for criterion in self._by_shard.criteria for index in indices
            }
            verdicts |= dict(by_shard.verdicts)
        return [self._scored(index, row, verdicts) for index, row in enumerate(rows)]

    def _missing(self, done: Future[None]) -> str:
        """Reason of criteria that the judge did not answer."""
        if not done.done():
            return f"deadline: the judge did not answer within {self._deadline_s:g} s"
        fault = done.exception()
        if fault is None:
            return "not_asked"
        if self._on_fault == "raise" or not isinstance(fault, UnfinishedError):
            raise fault
        return f"{_FAULTS.get(type(fault).__name__, 'unfinished')}: {fault}"

    def _scored(self, index: int, row: ReadOutput, verdicts: Verdicts) -> Score:
        parts = (
            (*self._unscored_parts, *(_columns_of(criterion) for criterion in row.own))
            if row.own
            else self._unscored_parts
        )
        part_verdicts = [
            Verdict(None, None, row.unmet[part.criterion_id], None)
            if part.criterion_id in row.unmet
            else verdicts.get((index, part.criterion_id), NO_VERDICT)
            for part in parts
        ]
        total, reward = self._totals(tuple(verdict.score for verdict in part_verdicts), row)
        return Score(
            row.output_id,
            total.score,
            total.score_low,
            total.score_high,
            total.is_passed,
            total.failed_gates,
            total.unscored_reason,
            reward,
            self.rubric.pass_threshold,
            parts,
            part_verdicts,
        )

    def _totals(self, values: tuple[float | None, ...], row: ReadOutput) -> tuple[OutputScore, Reward | None]:
        """Score and reward from the scores by criterion; cached, as checks give few different scores."""
        own, unmet = row.own, row.unmet
        is_usual = not own and not unmet
        totals = self._totals_cache.get(values) if is_usual else None
        if totals is not None:
            return totals
        names = (
            *(columns.criterion_id for columns in self._unscored_parts),
            *(criterion.id for criterion in own),
        )
        scores = dict(zip(names, values, strict=True))
        reward = None if self._reward_rule is None else self._reward_rule.reward(scores, own, unmet)
        totals = self._rule.score(scores, own, unmet), reward
        if is_usual and len(self._totals_cache) < MOST_CACHED_TOTALS:
            self._totals_cache[values] = totals
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
    return scorer._score(with_unmet(scorer.rubric, outputs))


def ledger_id_of(scorer: RubricScorer) -> str | None:
    """Id under which the ledger of the lake has the replies that a scorer paid; None without a judge."""
    return None if scorer._asking is None else scorer._asking.run_id


class _Started(NamedTuple):
    """Pending work of a call: questions to the judge, and criteria that need a shard."""

    judged: Batch | None
    by_shard: ShardBatch | None

    @property
    def waiting(self) -> list[Future[None]]:
        return [batch.done for batch in self if batch is not None]


@dataclass(frozen=True, slots=True)
class _Last:
    """Last batch of a trainer, and the reward functions that have read its scores."""

    key: str
    scores: Scores
    callers: set[str]


class CriterionReward:
    """Reward function of one criterion, called by TRL."""

    def __init__(self, scorer: RubricScorer, criterion_id: str) -> None:
        self._scorer, self.criterion_id = scorer, criterion_id
        self.__name__ = criterion_id

    def __call__(
        self, prompts: Sequence[Any] | None = None, completions: Sequence[Any] = (), **columns: Any
    ) -> Rewards:
        """Scores of the criterion, a float each, None where unscored."""
        scores = self._scorer.score_batch(prompts, completions, columns, self.criterion_id)
        return [None if score is None else score.criteria[self.criterion_id].score for score in scores]


_FAULTS = {"BudgetReached": "budget_reached", "EndpointUnavailable": "endpoint_error"}


def _value(score: Score | None) -> float | None:
    return None if score is None or score.reward is None else score.reward.value


def _retrieve(waiting: "asyncio.Future[None]") -> None:
    """Retrieve an error, so that asyncio does not report it: the batch has it too."""
    if not waiting.cancelled():
        waiting.exception()


def _reward_rule(rubric: Rubric, gates: Gates) -> RewardRule | None:
    """Rule of the rewards; None if the rubric has no rewarded criterion with a weight."""
    with suppress(InputError):
        return RewardRule(rubric, gates)
    return None


def checked_judge(name: str, rubric: Rubric, budget_usd: float | None) -> Judge:
    """Judge of a name, checked as a run checks it. Raises `JudgeSettingsError`."""
    judge = read_judge(name, os.environ)
    for recording in judge.recordings:
        check_replies(recording.path, rubric.criteria)
    if judge.is_batch:
        raise JudgeSettingsError(name, "a judge with batch requests", "one that answers at once")
    for online in judge.online:
        _checked_online(online, budget_usd)
    return judge


def _quick_judge(name: str, rubric: Rubric, budget_usd: float | None) -> Judge:
    """Judge of a name, checked. Raises `JudgeSettingsError`, also for a judge whose replies take minutes."""
    judge = checked_judge(name, rubric, budget_usd)
    if any(settings.batch_command is not None for settings in judge.online):
        problem = "a judge with a batch_command, whose program would start for each call"
        raise JudgeSettingsError(
            name, problem, "a server of the same model, or `gradebook evaluate`, which starts it once"
        )
    return judge


def _checked_online(online: JudgeSettings, budget_usd: float | None) -> None:
    refuse_unpaired_keys(online, os.environ)
    if budget_usd is not None:
        refuse_unpriced(online, find_price(online))


def _columns_of(criterion: Criterion) -> CriterionScore:
    """Columns of a criterion that are the same for all outputs."""
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
