"""Outputs: schema of input rows and stored outputs, and their identity."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Annotated, Any, NamedTuple

import pyarrow as pa
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

_LARGEST_SAMPLE_INDEX = 2**31 - 1
_MOST_SHOWN_CHARACTERS = 40

SHARD_SCHEMA = pa.schema(
    [
        pa.field("output_id", pa.string(), nullable=False),  # 32 hex digits
        pa.field("case_id", pa.string(), nullable=False),
        pa.field("model", pa.string(), nullable=False),
        pa.field("checkpoint", pa.string()),
        pa.field("sample_index", pa.int32(), nullable=False),
        pa.field("prompt", pa.string()),  # text, or chat messages as canonical JSON text
        pa.field("output", pa.string(), nullable=False),  # may be empty
        pa.field("reference", pa.string()),
        pa.field("context", pa.list_(pa.string())),  # a single text becomes a list of one
        pa.field("metadata", pa.string()),  # JSON object text
        pa.field("criteria", pa.string()),  # JSON list text: per-case criteria
        pa.field("cluster", pa.string()),  # common origin of outputs of several cases, such as a document
    ]
)

QUARANTINE_SCHEMA = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),  # the file
        pa.field("line", pa.int64()),  # from 1; the row number in Parquet
        pa.field("reason", pa.string(), nullable=False),
        pa.field("row", pa.string()),  # raw text, cut to 2,000 characters
    ]
)


class Output(NamedTuple):
    """Stored output: the columns of `SHARD_SCHEMA` without the id."""

    case_id: str
    model: str
    checkpoint: str | None
    sample_index: int
    prompt: str | None
    output: str
    reference: str | None
    context: list[str] | None
    metadata: str | None
    criteria: str | None
    cluster: str | None = None


OUTPUT_COLUMNS = Output._fields
REQUIRED_COLUMNS = ("case_id", "model", "output")


def output_id(output: Output) -> str:
    """Id of an output, from its content: 32 hex digits (BLAKE2b, 16 bytes) over every column.

    The digest covers the length of every text, then the texts: no two outputs share an encoding. A missing text has no
    length, so it differs from an empty one. A cluster is included only if present, under a separate mark: outputs
    without a cluster have the ids from before clusters existed. Raises `UnicodeEncodeError` on a lone surrogate.
    """
    case_id, model, checkpoint, sample_index, prompt, answer, reference, context, metadata, criteria, cluster = output
    texts = [case_id, model, checkpoint, str(sample_index), prompt, answer, reference, metadata, criteria]
    texts += (None,) if context is None else context
    lengths = ",".join(["-" if text is None else str(len(text)) for text in texts])
    if cluster is not None:
        lengths, texts = f"{lengths},cluster {len(cluster)}", [*texts, cluster]
    encoded = "".join([lengths, ":", *[text for text in texts if text is not None]]).encode()
    return blake2b(encoded, digest_size=16).hexdigest()


def _each_has_a_role(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if not all(isinstance(message.get("role"), str) for message in messages):
        raise ValueError("a message has no role")
    return messages


# A lake finds rows by these names, and its catalog's SQL ends at a null character.
_Name = Annotated[str, Field(min_length=1, pattern=r"^[^\x00]*$")]
_Messages = Annotated[list[dict[str, Any]], Field(min_length=1), AfterValidator(_each_has_a_role)]


class OutputRow(BaseModel):
    """Row of a file, with columns already renamed to gradebook's. A number is not accepted as text."""

    model_config = ConfigDict(extra="forbid", strict=True)

    case_id: _Name | int
    model: _Name
    output: str
    prompt: str | _Messages | None = None
    reference: str | None = None
    context: str | list[str] | None = None
    checkpoint: Annotated[str, Field(pattern=r"^[^\x00]*$")] | int | None = None
    sample_index: Annotated[int, Field(ge=0, le=_LARGEST_SAMPLE_INDEX)] | None = None
    metadata: dict[str, Any] | None = None
    criteria: list[dict[str, Any]] | None = None
    cluster: _Name | int | None = None


_EXPECTED = {
    "case_id": "text (not empty) or an integer",
    "model": "text (not empty)",
    "output": "text",
    "prompt": "text or a list of chat messages, each an object with a role",
    "reference": "text",
    "context": "text or a list of texts",
    "checkpoint": "text or an integer",
    "sample_index": f"an integer from 0 to {_LARGEST_SAMPLE_INDEX}",
    "metadata": "an object",
    "criteria": "a list of objects",
    "cluster": "text (not empty) or an integer",
}


def misfit_reason(row: Mapping[str, Any], error: ValidationError) -> str:
    """Describe the invalid columns of a row: found and expected value of each."""
    columns = dict.fromkeys(str(problem["loc"][0]) for problem in error.errors(include_url=False, include_input=False))
    return "; ".join(f"{column}: {_misfit(row, column)}" for column in columns)


def _misfit(row: Mapping[str, Any], column: str) -> str:
    if isinstance(row.get(column), str) and "\0" in row[column]:
        return "found a text with a null character, expected none in a name"
    return f"found {_found(row, column)}, expected {_EXPECTED[column]}"


def _found(row: Mapping[str, Any], column: str) -> str:
    return describe_value(row[column]) if column in row else "nothing"


def describe_value(value: object) -> str:
    """Describe a row's value in a few words, for a message."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f'the text "{_cut(value)}"' if value else "empty text"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "an object" if isinstance(value, dict) else f"a value of type {type(value).__name__}"


def _cut(text: str) -> str:
    """First characters of a text, safe to display."""
    shown = text if len(text) <= _MOST_SHOWN_CHARACTERS else f"{text[:_MOST_SHOWN_CHARACTERS]}..."
    return shown.encode("unicode_escape", "backslashreplace").decode("ascii") if not shown.isprintable() else shown
