"""Method `function`: functions of users, called in processes of their own, so that none can end or stall a run."""

import json
import os
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from gradebook.rubrics.check_kit.columns import cut_text, text_column
from gradebook.rubrics.model.errors import Fault, RubricError
from gradebook.rubrics.model.levels import Level, place_score
from gradebook.rubrics.model.methods import FunctionMethod
from gradebook.rubrics.model.outputs import OUTPUT_COLUMNS
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.model.verdicts import verdict_table
from gradebook.tasks.methods.function_worker import answers_of
from gradebook.tasks.methods.method import RowMethod, ScoringSetup, leave_unscored
from gradebook.tasks.planning.plan import RunPlan
from gradebook.tasks.runs.function_settings import FunctionSettings, runnable_functions
from gradebook.tasks.runs.run import Run
from gradebook.tasks.system.processes import ProcessPool, end_process, start_python
from gradebook.tasks.workspace.timings import Timing

LONGEST_LINE = 100_000
START_S = 30.0  # limit for starting, and for receiving a request
WORKER = "gradebook.tasks.methods.function_worker"
# Arrow's other pools reserve a gigabyte of the limit in advance.
ENVIRONMENT = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
NO_VERDICT = "function's process sent what is no verdict"

Reply = tuple[str | bool | float | None, str | None, str | None]  # level or score, evidence, reason of a missing level


class ProcessLost(Exception):
    """The process is unusable; the error's text becomes the reason of the row in work."""


class FunctionFault(Exception):
    """The function cannot be imported or does not exist."""


class FunctionProcess:
    """One running process, in a session of its own, so that its child processes end with it."""

    def __init__(self, settings: FunctionSettings, log_file: Path | None) -> None:
        """log_file: receives the functions' output; None discards it."""
        self._settings = settings
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self._is_ready = False
        self._vectorised: dict[str, bool] = {}
        self._socket, theirs = socket.socketpair()
        with theirs, (log_file or Path(os.devnull)).open("ab") as log:
            self._process = start_python(
                WORKER, theirs.fileno(), settings.memory_limit_mb, log=log, environment=ENVIRONMENT
            )

    def find(self, function: str) -> bool:
        """Import a function once; returns whether it is vectorised. Raises `FunctionFault` or `ProcessLost`."""
        if function not in self._vectorised:
            if not self._is_ready:
                self._answer(START_S)
                self._is_ready = True
            self._send({"function": function, "allow": self._settings.allow}, b"")
            match self._answer(self._settings.time_limit_s):
                case {"is_vectorised": bool(is_vectorised)}:
                    self._vectorised[function] = is_vectorised
                case {"fault": str(fault)}:
                    raise FunctionFault(fault)
                case _:
                    raise ProcessLost(NO_VERDICT)
        return self._vectorised[function]

    def call(self, method: FunctionMethod, rows: pa.Table) -> Iterator[Reply | float]:
        """Call an imported function. Yields a reply for each row as it arrives, and finally the CPU seconds.

        Raises `ProcessLost`: the process was working on the row after the last reply.
        """
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        body = sink.getvalue()
        limit_s = self._settings.time_limit_s if self._vectorised[method.function] else self._settings.row_time_limit_s
        request = {"function": method.function, "settings": method.settings, "takes": method.takes}
        self._send(request | {"size": body.size}, body)
        _without_fault(self._answer(START_S))  # the worker has started: the time limit is for the function alone
        for _ in range(rows.num_rows):
            yield _reply(self._answer(limit_s))
        match self._answer(limit_s):
            case {"cpu_s": float(cpu_s)}:
                yield cpu_s
            case _:
                raise ProcessLost(NO_VERDICT)

    def is_alive(self) -> bool:
        """Whether the process can be called."""
        return self._process.poll() is None

    def end(self) -> None:
        """Kill the process and its child processes."""
        end_process(self._process)
        self._socket.close()

    def _send(self, request: dict[str, Any], body: Any) -> None:
        self._socket.settimeout(START_S)
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            self._socket.sendall(body)
        except TimeoutError:
            raise ProcessLost(f"function's process took in nothing for {START_S:g} s") from None
        except OSError:
            _without_fault(self._answer(START_S))  # raises its own fault, if it sent one
            raise ProcessLost(self._describe_end()) from None

    def _answer(self, limit_s: float) -> Any:
        if not self._lines:
            self._receive(limit_s)
        try:
            return json.loads(self._lines.popleft())
        except (ValueError, RecursionError):
            raise ProcessLost(NO_VERDICT) from None

    def _receive(self, limit_s: float) -> None:
        """Wait for at least one line. Raises `ProcessLost`."""
        deadline = time.monotonic() + limit_s
        while not self._lines:
            try:
                self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
                chunk = self._socket.recv(1 << 16)
            except TimeoutError:
                raise ProcessLost(f"function took more than {limit_s:g} s") from None
            except OSError:
                chunk = b""
            if not chunk:
                raise ProcessLost(self._describe_end())
            *whole_lines, self._rest = (self._rest + chunk).split(b"\n")
            if len(self._rest) > LONGEST_LINE:
                raise ProcessLost(NO_VERDICT)
            self._lines.extend(whole_lines)

    def _describe_end(self) -> str:
        try:
            code = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            return "function's process closed its connection"
        if code < 0:
            return f"function's process died (signal {-code})"
        return f"function's process ended (exit code {code})"


def _reply(answer: Any) -> Reply:
    match _without_fault(answer):
        case [str() | bool() | float() | None as level, str() | None as evidence, str() | None as fault]:
            return level, evidence, fault
    raise ProcessLost(NO_VERDICT)


def _without_fault(answer: Any) -> Any:
    match answer:
        case {"fault": str(fault)}:
            raise ProcessLost(fault)
    return answer


FUNCTION_COLUMNS = tuple(column for column in OUTPUT_COLUMNS if column != "criteria")
CANT_TELL = "the function can't tell"
MOST_LOST = 20  # most lost processes per shard; after them the remaining rows are left unscored
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

        If the process ends or exceeds the time limit, the row gets the reason, and a new process continues with the
        next row. A vectorised function has one call for all rows.
        """
        replies: list[Reply] = []
        lost_count = 0
        while len(replies) < rows.num_rows:
            process = self._processes.take()
            is_vectorised = False
            try:
                is_vectorised = process.find(method.function)
                for chunk in _slices(rows.slice(len(replies)), is_whole=is_vectorised):
                    _gather(process.call(method, chunk), replies, timing)
            except FunctionFault as fault:
                self._processes.drop(process)
                replies += _failed_replies(f"function can't be imported: {fault}", rows.num_rows - len(replies))
            except ProcessLost as lost:
                self._processes.drop(process)
                lost_count += 1
                remaining_count = rows.num_rows - len(replies)  # 0 if it ended after the last row
                replies += _failed_replies(str(lost), remaining_count if is_vectorised else min(remaining_count, 1))
                if lost_count == MOST_LOST:
                    reason = f"function not called: {MOST_LOST} calls of the shard ended its process, the last: {lost}"
                    replies += _failed_replies(reason, rows.num_rows - len(replies))
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
    method = criterion.method_as(FunctionMethod)
    if pool is None or not pool.settings.allows(method.function):
        return leave_unscored(run_id, criterion, rows)
    return _verdicts_of(run_id, criterion, rows, pool.call(method, rows.select(FUNCTION_COLUMNS), timing))


def score_callable(run_id: str, criterion: Criterion, rows: pa.Table, function: Callable[..., Any]) -> pa.Table:
    """Verdicts of a criterion by the caller's own callable, in this process and without limits."""
    method = criterion.method_as(FunctionMethod)
    answers = answers_of(function, rows.select(FUNCTION_COLUMNS), method.settings, method.takes)
    replies = [(level, evidence, fault) for lines in answers for level, evidence, fault in lines]
    return _verdicts_of(run_id, criterion, rows, replies)


def _verdicts_of(run_id: str, criterion: Criterion, rows: pa.Table, replies: list[Reply]) -> pa.Table:
    grades = [_grade_reply(criterion.ranked_levels, *reply) for reply in replies]
    return verdict_table(
        run_id,
        criterion,
        text_column(rows, "output_id"),
        pa.array([grade.level_id for grade in grades], pa.string()),
        pa.array([grade.score for grade in grades], pa.float64()),
        reasons=pa.array([grade.reason for grade in grades], pa.string()),
        evidence=pa.array([grade.evidence for grade in grades], pa.string()),
    )


class FunctionScoring(RowMethod):
    """Scoring by functions that the operator allows; criteria with other functions stay unscored."""

    @contextmanager
    def opened(self, run: Run, plan: RunPlan, shards: Sequence[str]) -> Iterator[FunctionPool | None]:
        """Pool for the rubric's functions; None if none of them may run."""
        with opened_functions(run.rubric, run.functions, run.folder.path / "functions.log") as pool:
            yield pool

    def columns(self, criterion: Criterion) -> tuple[str, ...]:
        """All columns that a function gets."""
        return ("output_id", *FUNCTION_COLUMNS)

    def score_rows(self, setup: ScoringSetup, criterion: Criterion, rows: pa.Table, timing: Timing) -> pa.Table:
        """Verdicts by the function's replies."""
        return score_function(setup.folder.run_id, criterion, rows, setup.resources.get("function"), timing)


@dataclass(frozen=True, slots=True)
class _Grade:
    level_id: str | None
    score: float | None
    evidence: str | None
    reason: str | None = None


def _grade_reply(
    levels: tuple[Level, ...], returned: str | bool | float | None, evidence: str | None, fault: str | None
) -> _Grade:
    """Verdict from a function's return value. levels: worst first; a score gets the nearest level."""
    quote = None if evidence is None else cut_text(evidence)
    if isinstance(returned, bool):
        level = levels[-1 if returned else 0]
        return _Grade(level.id, level.score, quote)
    if isinstance(returned, float):
        try:
            return _Grade(place_score(levels, returned)[0], returned, quote)
        except ValueError as error:
            return _Grade(None, None, quote, cut_text(f"unknown_level: {error}"))
    match_ = next((level for level in levels if level.id == returned), None)
    if match_ is not None:
        return _Grade(match_.id, match_.score, quote)
    if returned is None:
        return _Grade(None, None, quote, cut_text(fault or CANT_TELL))
    expected = ", ".join(level.id for level in levels)
    return _Grade(None, None, quote, cut_text(f"unknown_level: {cut_text(returned, 60)!r}, expected one of {expected}"))


def _slices(rows: pa.Table, *, is_whole: bool) -> Iterable[pa.Table]:
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


def _failed_replies(reason: str, count: int) -> list[Reply]:
    return [(None, None, reason)] * count
