"""Steps of a trajectory: what an agent did between the prompt and its last answer."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Annotated, Any, Literal, NamedTuple, get_args

import orjson
import pyarrow as pa
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

from gradebook.rubrics.model.json_values import canonical_json

StepKind = Literal["user", "model", "tool", "retrieval", "agent", "system"]
STEP_KINDS: tuple[str, ...] = get_args(StepKind)
MOST_STEPS = 100_000  # steps of one output
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

STEP_TYPE = pa.struct(
    [
        pa.field("parent_index", pa.int32()),  # index of the enclosing step; null: none
        pa.field("span_id", pa.string()),  # id in the trace it was read from
        pa.field("agent", pa.string()),  # name of the agent that took the step
        pa.field("kind", pa.string()),  # one of STEP_KINDS
        pa.field("name", pa.string()),  # name of the tool, the model, the retriever or the agent
        pa.field("input", pa.string()),  # arguments of a tool or the query of a retrieval; JSON unless it is a text
        pa.field("output", pa.string()),  # result of the step; JSON unless it is a text
        pa.field("error", pa.string()),  # null: no error
        pa.field("started_at", pa.timestamp("us", tz="UTC")),
        pa.field("latency_ms", pa.float64()),
        pa.field("tokens", pa.int64()),  # tokens of prompt and completion
        pa.field("cost_usd", pa.float64()),
    ]
)
STEPS_TYPE = pa.list_(STEP_TYPE)


class Step(NamedTuple):
    """One step, with the fields of `STEP_TYPE`. started_at: microseconds since 1970, UTC."""

    kind: str
    name: str | None = None
    input: str | None = None
    output: str | None = None
    error: str | None = None
    parent_index: int | None = None
    span_id: str | None = None
    agent: str | None = None
    started_at: int | None = None
    latency_ms: float | None = None
    tokens: int | None = None
    cost_usd: float | None = None


Steps = tuple[Step, ...]
_FIELD_INDICES = [Step._fields.index(field.name) for field in STEP_TYPE]


def steps_array(column: Iterable[Sequence[Step] | None]) -> pa.ListArray:
    """Column of a shard from the steps of its outputs: (output,), `STEPS_TYPE`. None: the output has no steps."""
    offsets, steps, is_missing = [0], list[Step](), list[bool]()
    for output_steps in column:
        steps.extend(output_steps or ())
        offsets.append(len(steps))
        is_missing.append(output_steps is None)
    by_field = list(zip(*steps, strict=True)) or [()] * len(Step._fields)
    arrays = [pa.array(by_field[index], field.type) for index, field in zip(_FIELD_INDICES, STEP_TYPE, strict=True)]
    structs = pa.StructArray.from_arrays(arrays, fields=list(STEP_TYPE))
    mask = pa.array(is_missing, pa.bool_())
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs, type=STEPS_TYPE, mask=mask)


def read_stored_steps(stored: Iterable[Mapping[str, Any]] | None) -> Steps | None:
    """Steps of an output from the rows that Arrow or DuckDB give. None: it has no steps."""
    if stored is None:
        return None
    return tuple(Step(**{**row, "started_at": _microseconds(row["started_at"])}) for row in stored)


def steps_text(steps: Sequence[Step]) -> str:
    """Canonical text of steps, for the id of their output: a JSON list of lists, in the order of `Step`.

    Raises `UnicodeEncodeError` on a lone surrogate.
    """
    for text in chain.from_iterable(steps):
        if isinstance(text, str) and not text.isascii():
            text.encode()
    return orjson.dumps([tuple(step) for step in steps]).decode()


def _microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // datetime.resolution


def in_utc(moment: datetime) -> datetime:
    """Time in UTC. Raises `ValueError` beyond the years 1 to 9999, which Python's datetime can't hold."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"found {moment.isoformat()}, expected a time from the year 1 to 9999 in UTC") from None


_Text = Annotated[str, Field(min_length=1)]
_Moment = Annotated[AwareDatetime, AfterValidator(in_utc)]
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]


class StepRow(BaseModel):
    """A step in the column `steps` of a row. Values other than texts become JSON; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid")

    kind: StepKind
    name: _Text | None = None
    input: Any = None
    output: Any = None
    error: Any = None
    step_index: Annotated[int, Field(ge=0, strict=True)] | None = None  # checked against its position
    parent_index: Annotated[int, Field(ge=0, strict=True)] | None = None
    span_id: _Text | None = None
    agent: _Text | None = None
    started_at: _Moment | None = None
    latency_ms: _Amount | None = None
    tokens: Annotated[int, Field(ge=0, lt=2**63, strict=True)] | None = None
    cost_usd: _Amount | None = None

    def as_step(self) -> Step:
        """Convert to the stored form."""
        return Step(
            kind=self.kind,
            name=self.name,
            input=value_text(self.input),
            output=value_text(self.output),
            error=value_text(self.error),
            parent_index=self.parent_index,
            span_id=self.span_id,
            agent=self.agent,
            started_at=_microseconds(self.started_at),
            latency_ms=self.latency_ms,
            tokens=self.tokens,
            cost_usd=self.cost_usd,
        )


EXPECTED = {
    "kind": f"one of {', '.join(STEP_KINDS)}",
    "step_index": "its place, counted from 0",
    "parent_index": "the place of an earlier step, counted from 0",
    "started_at": "a time with its zone, such as 2026-11-25T09:30:00Z, of the years 1 to 9999 in UTC",
    "latency_ms": "milliseconds, 0 or more",
    "tokens": "a whole number, 0 or more",
    "cost_usd": "dollars, 0 or more",
}


def value_text(value: Any) -> str | None:
    """Text of a value: a text unchanged, None for null, canonical JSON for anything else."""
    if value is None or isinstance(value, str):
        return value
    return canonical_json(value)


def check_step_indices(steps: list[StepRow]) -> list[StepRow]:
    """The same steps.

    Raises `ValueError` for an index that is not the step's position, or a parent that is not earlier.
    """
    for index, step in enumerate(steps):
        if step.step_index is not None and step.step_index != index:
            raise ValueError(f"step {index} has the step_index {step.step_index}, expected its place, counted from 0")
        if step.parent_index is not None and step.parent_index >= index:
            raise ValueError(f"step {index} has the parent_index {step.parent_index}, expected an earlier step")
    return steps
