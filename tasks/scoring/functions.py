"""Verdicts of functions of users, called in processes of their own, so that none can end or stall a run."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import pyarrow as pa

from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.check_kit.evidence import cut_text
from gradebook.rubrics.model.errors import Fault, RubricError
from gradebook.rubrics.model.levels import Level, place_score
from gradebook.rubrics.model.methods import FunctionMethod
from gradebook.rubrics.model.outputs import OUTPUT_COLUMNS
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.model.verdicts import verdict_table
from gradebook.tasks.runs.function_settings import FunctionSettings, runnable_functions
from gradebook.tasks.scoring.computed import leave_unscored
from gradebook.tasks.scoring.function_process import FunctionFault, FunctionProcess, ProcessLost, Reply
from gradebook.tasks.system.processes import ProcessPool
from gradebook.tasks.workspace.timings import Timing

FUNCTION_COLUMNS = tuple(column for column in OUTPUT_COLUMNS if column != "criteria")
CANT_TELL = "the function can't tell"
MOST_LOST = 20  # lost processes per shard, after which the remaining rows are not called
SLICE_ROWS, SLICE_BYTES = 1_000, 1 << 23  # size of one request, if called row by row


class FunctionPool:
    """Pool of processes that call functions: one per concurrent call, reused; all end with the pool."""

    def __init__(self, settings: FunctionSettings, log_file: Path | None = None) -> None:
        """log_file: receives the functions' output; None discards it."""
        self.settings = settings
        self._processes = ProcessPool(partial(FunctionProcess, settings, log_file))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes; a call in progress raises."""
        self._processes.close()

    def find(self, function: str) -> None:
        """Import a function without calling it. Raises `FunctionFault`."""
        process = self._processes.take()
        try:
            process.find(function)
        except ProcessLost as lost:
            self._processes.drop(process)
            raise FunctionFault(str(lost).replace("function", "its import", 1)) from None
        except FunctionFault:
            self._processes.drop(process)  # a partial import must not affect others
            raise
        self._processes.give_back(process)

    def call(self, method: FunctionMethod, rows: pa.Table, timing: Timing) -> list[Reply]:
        """Reply of the function for each row. rows: `FUNCTION_COLUMNS`.

        A row whose call ends or outlasts its process gets the reason, and the next row continues in a new process; a
        vectorised function has one call for all rows.
        """
        replies: list[Reply] = []
        lost_count = 0
        while len(replies) < rows.num_rows:
            process = self._processes.take()
            is_vectorised = False
            try:
                is_vectorised = process.find(method.function)
                for part in _parts(rows.slice(len(replies)), is_whole=is_vectorised):
                    _gather(process.call(method, part), replies, timing)
            except FunctionFault as fault:
                self._processes.drop(process)
                replies += _failed(f"function can't be imported: {fault}", rows.num_rows - len(replies))
            except ProcessLost as lost:
                self._processes.drop(process)
                lost_count += 1
                rest = rows.num_rows - len(replies)  # 0 if it ended after the last row
                replies += _failed(str(lost), rest if is_vectorised else min(rest, 1))
                if lost_count == MOST_LOST:
                    words = f"function not called: {MOST_LOST} calls of the shard ended its process, the last: {lost}"
                    replies += _failed(words, rows.num_rows - len(replies))
            else:
                self._processes.give_back(process)
        return replies


@contextmanager
def opened_functions(rubric: Rubric, settings: FunctionSettings, log_file: Path) -> Iterator[FunctionPool | None]:
    """Pool for the rubric's functions while the block runs; None if none of them may run."""
    if not runnable_functions(rubric, settings):
        yield None
        return
    with FunctionPool(settings, log_file) as pool:
        yield pool
    if log_file.exists() and not log_file.stat().st_size:
        log_file.unlink()


def probe_functions(rubric: Rubric, settings: FunctionSettings) -> None:
    """Import each function of the rubric that may run. Raises `RubricError` if one cannot be imported."""
    faults = []
    with FunctionPool(settings) as pool:
        for criterion_id, name in runnable_functions(rubric, settings).items():
            try:
                pool.find(name)
            except FunctionFault as fault:
                message = f"{criterion_id}: the function {name}: {fault}"
                expected = "" if "expected" in message else ", expected a function that can be imported"
                faults.append(Fault(rubric.id, None, message + expected))
    if faults:
        raise RubricError(tuple(faults))


def score_function(
    run_id: str, criterion: Criterion, rows: pa.Table, pool: FunctionPool | None, timing: Timing
) -> pa.Table:
    """Verdicts of a criterion's function, as `VERDICT_SCHEMA`: unscored if its package may not run.

    rows: `output_id` and `FUNCTION_COLUMNS`. Raises `TypeError` for a criterion of another method.
    """
    method = criterion.method
    if not isinstance(method, FunctionMethod):
        raise TypeError(f"{criterion.id}: found the method {method.type}, expected function")
    if pool is None or not pool.settings.allows(method.function):
        return leave_unscored(run_id, criterion, rows)
    replies = pool.call(method, rows.select(FUNCTION_COLUMNS), timing)
    graded = [_graded(criterion.ranked_levels, *reply) for reply in replies]
    return verdict_table(
        run_id,
        criterion,
        text_column(rows, "output_id"),
        pa.array([each.level_id for each in graded], pa.string()),
        pa.array([each.score for each in graded], pa.float64()),
        reasons=pa.array([each.reason for each in graded], pa.string()),
        evidence=pa.array([each.evidence for each in graded], pa.string()),
    )


@dataclass(frozen=True, slots=True)
class _Graded:
    level_id: str | None
    score: float | None
    evidence: str | None
    reason: str | None = None


def _graded(
    levels: tuple[Level, ...], said: str | bool | float | None, evidence: str | None, fault: str | None
) -> _Graded:
    """Verdict on what a function returned. levels: worst first; a score gets the nearest one."""
    shown = None if evidence is None else cut_text(evidence)
    if isinstance(said, bool):
        level = levels[-1 if said else 0]
        return _Graded(level.id, level.score, shown)
    if isinstance(said, float):
        try:
            return _Graded(place_score(levels, said)[0], said, shown)
        except ValueError as error:
            return _Graded(None, None, shown, cut_text(f"unknown_level: {error}"))
    found = next((level for level in levels if level.id == said), None)
    if found is not None:
        return _Graded(found.id, found.score, shown)
    if said is None:
        return _Graded(None, None, shown, cut_text(fault or CANT_TELL))
    expected = ", ".join(level.id for level in levels)
    return _Graded(None, None, shown, cut_text(f"unknown_level: {cut_text(said, 60)!r}, expected one of {expected}"))


def _parts(rows: pa.Table, *, is_whole: bool) -> Iterable[pa.Table]:
    """Rows split into requests: all at once, or in slices."""
    if is_whole:
        return (rows,)
    row_bytes = max(rows.nbytes // rows.num_rows, 1)
    count = max(min(SLICE_ROWS, SLICE_BYTES // row_bytes), 1)
    return (rows.slice(start, count) for start in range(0, rows.num_rows, count))


def _gather(answers: Iterable[Reply | float], replies: list[Reply], timing: Timing) -> None:
    """Append each reply as it arrives, so that replies before the loss of a process remain."""
    for answer in answers:
        if isinstance(answer, float):
            timing.cpu_s += answer
        else:
            replies.append(answer)


def _failed(reason: str, count: int) -> list[Reply]:
    return [(None, None, reason)] * count
