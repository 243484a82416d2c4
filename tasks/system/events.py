"""Events of a run in progress: log lines, and spans and metrics if an exporter is configured.

Events never contain any of an output, a prompt, a reply or a key: only names, counts, times, costs and error types.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from gradebook.rubrics.model.errors import BudgetReached, LakeUnavailable, UnfinishedError
from gradebook.tasks.system.logs import FIELDS, LOGGER, begin_logging
from gradebook.tasks.system.tracing import tracing

RUNS, STAGES, QUALITY = (logging.getLogger(f"{LOGGER}.{name}") for name in ("run", "stage", "quality"))


@dataclass(slots=True)
class Piece:
    """A run, stage, criterion or shard in progress; its counts are filled in meanwhile."""

    run_id: str
    stage: str | None = None  # None: the run itself
    criterion_id: str | None = None
    shard: int | None = None
    counts: dict[str, int] = field(default_factory=dict)
    names: Mapping[str, object] = field(default_factory=dict)  # of a run: its rubric, judge and dataset

    @property
    def fields(self) -> dict[str, object]:
        """Identifying fields, without absent ones."""
        place = {"stage": self.stage, "criterion_id": self.criterion_id, "shard": self.shard}
        return {"run_id": self.run_id} | {name: value for name, value in place.items() if value is not None}

    def __str__(self) -> str:
        shard = None if self.shard is None else f"shard {self.shard}"
        return " · ".join(part for part in (self.stage or "run", self.criterion_id, shard) if part)


@dataclass(slots=True)
class _Spent:
    """Spending on the judges of a run in this process. cost_usd: None from the first reply without a price."""

    request_count: int = 0
    cost_usd: float | None = 0.0


_spent: dict[str, _Spent] = {}


def count_request(run_id: str, *, is_paid: bool, cost_usd: float | None) -> None:
    """Count a request to a judge of a run, and the cost of its reply; None if unknown."""
    spent = _spent.get(run_id)
    if spent is None:
        return
    spent.request_count += 1
    if is_paid:
        is_known = spent.cost_usd is not None and cost_usd is not None
        spent.cost_usd = (spent.cost_usd or 0.0) + (cost_usd or 0.0) if is_known else None


@contextmanager
def run_span(run_id: str, names: Mapping[str, object]) -> Iterator[None]:
    """Log the beginning and the end of a run, and export its spans and metrics before continuing."""
    begin_logging()
    _spent[run_id] = _Spent()
    try:
        with piece_span(Piece(run_id, names=names)):
            yield
    finally:
        del _spent[run_id]
        traced = tracing()
        if traced is not None and not traced.flush():
            tell(RUNS, logging.WARNING, "otel.gone", "no OpenTelemetry receiver answers; what it lacks is dropped")


@contextmanager
def piece_span(piece: Piece) -> Iterator[Piece]:
    """Log the beginning and the end of a piece of work, or the type of its failure."""
    logger, traced, started = RUNS if piece.stage is None else STAGES, tracing(), time.perf_counter()
    if traced is None and not logger.isEnabledFor(logging.ERROR):  # no listener
        yield piece
        return
    tell(logger, logging.INFO, "begin", f"{piece} begins", **piece.fields, **piece.names)
    with nullcontext() if traced is None else traced.span({**piece.fields, **piece.names}, piece.counts):
        try:
            yield piece
        except BaseException as error:
            ended = _ended(piece, started) | {"error_type": type(error).__name__}
            tell(logger, logging.ERROR, "failed", f"{piece} failed: {_message(error)}", **ended)
            raise
    tell(logger, logging.INFO, "end", f"{piece} is done", **_ended(piece, started))


def tell_finding(finding: Any) -> None:
    """Log a data-quality finding, at debug level if its expectation is met."""
    broken = logging.ERROR if finding.severity == "error" else logging.WARNING
    level, words = (logging.DEBUG, "is met") if finding.is_met else (broken, "is not met")
    fields = {"run_id": finding.run_id, "stage": finding.stage, "subject": finding.subject}
    fields |= {"expectation": finding.expectation, "unexpected_count": finding.unexpected_count}
    tell(QUALITY, level, "finding", f"{finding.stage} · {finding.subject}: {finding.expectation} {words}", **fields)


def _message(error: BaseException) -> str:
    """Message of an error if the words are our own, else its type: other messages may quote an output."""
    is_ours = isinstance(error, BudgetReached | LakeUnavailable) or type(error) is UnfinishedError
    return str(error) if is_ours else type(error).__name__


def _ended(piece: Piece, started: float) -> dict[str, object]:
    fields: dict[str, object] = piece.fields | piece.counts | {"seconds": round(time.perf_counter() - started, 3)}
    spent = _spent.get(piece.run_id)
    if spent is not None and piece.stage in {None, "score"}:
        fields |= {"run_request_count": spent.request_count}
        fields |= {"run_cost_usd": None if spent.cost_usd is None else round(spent.cost_usd, 9)}
    return fields


def tell(logger: logging.Logger, level: int, event: str, message: str, **fields: object) -> None:
    """Log one record with its fields."""
    if logger.isEnabledFor(level):
        logger.log(level, "%s", message, extra={FIELDS: {"event": event} | fields})
