"""Outputs: schema of input rows and stored outputs, their identity, and the columns that a user may rename."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, NamedTuple

import orjson
import pyarrow as pa
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from gradebook.rubrics.model.errors import Fault
from gradebook.rubrics.model.json_values import HALF_PAIR, canonical_json, digest_of
from gradebook.rubrics.model.steps import EXPECTED as STEP_EXPECTED
from gradebook.rubrics.model.steps import (
    MOST_STEPS,
    STEP_KINDS,
    STEPS_TYPE,
    StepRow,
    Steps,
    check_step_indices,
    read_stored_steps,
    steps_array,
    steps_text,
)

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
        pa.field("reference", pa.string()),  # one right answer, or a JSON list of several
        pa.field("context", pa.list_(pa.string())),  # a single text becomes a list of one
        pa.field("metadata", pa.string()),  # JSON object text
        pa.field("criteria", pa.string()),  # JSON list text: per-case criteria
        pa.field("cluster", pa.string()),  # common origin of outputs of several cases, such as a document
        pa.field("steps", STEPS_TYPE),  # steps of a trajectory, in order; null if the row has none
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
    steps: Steps | None = None


OUTPUT_COLUMNS = Output._fields
REQUIRED_COLUMNS = ("case_id", "model", "output")


def output_id(output: Output) -> str:
    """Id of an output, from its content: 32 hex digits (BLAKE2b, 16 bytes) over every column.

    The digest covers the length of every text, then the texts: no two outputs share an encoding. A missing text has no
    length, so it differs from an empty text. A cluster and steps are included, with a mark, only if present: so outputs
    without them have the same ids as in versions without these columns. Raises `UnicodeEncodeError` on a lone
    surrogate.
    """
    case_id, model, checkpoint, sample_index, prompt, answer, reference, context, metadata, criteria = output[:10]
    cluster, steps = output[10:]
    texts = [case_id, model, checkpoint, str(sample_index), prompt, answer, reference, metadata, criteria]
    texts += (None,) if context is None else context
    lengths = ",".join(["-" if text is None else str(len(text)) for text in texts])
    if cluster is not None:
        lengths, texts = f"{lengths},cluster {len(cluster)}", [*texts, cluster]
    if steps is not None:
        trajectory = steps_text(steps)
        lengths, texts = f"{lengths},steps {len(trajectory)}", [*texts, trajectory]
    encoded = "".join([lengths, ":", *[text for text in texts if text is not None]]).encode()
    return digest_of(encoded)


def shard_column(name: str, values: Iterable[Any]) -> pa.Array:
    """Column of a shard from values of `Output`: (output,)."""
    return steps_array(values) if name == "steps" else pa.array(values, SHARD_SCHEMA.field(name).type)


def stored_output(row: Mapping[str, Any]) -> Output:
    """Output from a stored row, as Arrow or DuckDB give it."""
    return Output(*(row[name] for name in OUTPUT_COLUMNS))._replace(steps=read_stored_steps(row["steps"]))


def reference_text(reference: str | list[str]) -> str:
    """Stored form of a row's reference: its text, or the JSON list of several right answers."""
    if isinstance(reference, str):
        return reference
    return reference[0] if len(reference) == 1 else canonical_json(reference)


def reference_answers(text: str) -> list[str]:
    """Right answers of a stored reference. A JSON list of texts gives its non-blank texts and the whole list."""
    if not (text.startswith('["') and text.endswith('"]')):
        return [text]
    try:
        answers = orjson.loads(text)
    except orjson.JSONDecodeError:
        return [text]
    is_read = all(isinstance(answer, str) for answer in answers)
    return [*(answer for answer in answers if answer.strip()), text] if is_read else [text]


FIELD_PATTERN = r"^[^.]+(\.[^.]+)*$"  # keys of objects and indices of lists, from the outside in


def read_field(output: str, path: str) -> tuple[str | None, str | None]:
    """(text of a field of a JSON output, None), or (None, reason why there is none); other values than texts as JSON.

    path: as `FIELD_PATTERN`: `reply`, `answer.parts.0`. An empty text counts as a field, null does not. A lone
    surrogate is read as U+FFFD.
    """
    try:
        value = json.loads(output)
    except (ValueError, RecursionError):
        return None, f"no_field: found an output that is no JSON, expected an object with the field {path}"
    for key in path.split("."):
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and key.isascii() and key.isdecimal() and int(key[:9]) < len(value):
            value = value[int(key[:9])]
        else:
            value = None
    if value is None:
        return None, f"no_field: found no field {path} in the output, expected one"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return HALF_PAIR.sub("\ufffd", text), None


def _check_roles(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if not all(isinstance(message.get("role"), str) for message in messages):
        raise ValueError("a message has no role")
    return messages


# A lake finds rows by these names, and its catalog's SQL ends at a null character.
_Name = Annotated[str, Field(min_length=1, pattern=r"^[^\x00]*$")]
_Messages = Annotated[list[dict[str, Any]], Field(min_length=1, fail_fast=True), AfterValidator(_check_roles)]
_Steps = Annotated[list[StepRow], Field(max_length=MOST_STEPS), AfterValidator(check_step_indices)]


class OutputRow(BaseModel):
    """Row of a file, with columns already renamed to gradebook's. A number is not accepted as text."""

    model_config = ConfigDict(extra="forbid", strict=True)

    case_id: _Name | int
    model: _Name
    output: str
    prompt: str | _Messages | None = None
    reference: str | Annotated[list[str], Field(min_length=1, fail_fast=True)] | None = None
    context: str | Annotated[list[str], Field(fail_fast=True)] | None = None
    checkpoint: Annotated[str, Field(pattern=r"^[^\x00]*$")] | int | None = None
    sample_index: Annotated[int, Field(ge=0, le=_LARGEST_SAMPLE_INDEX)] | None = None
    metadata: dict[str, Any] | None = None
    criteria: Annotated[list[dict[str, Any]], Field(fail_fast=True)] | None = None
    cluster: _Name | int | None = None
    steps: _Steps | None = None


_EXPECTED = {
    "case_id": "text (not empty) or an integer",
    "model": "text (not empty)",
    "output": "text",
    "prompt": "text or a list of chat messages, each an object with a role",
    "reference": "text, or a list of texts that are each right",
    "context": "text or a list of texts",
    "checkpoint": "text or an integer",
    "sample_index": f"an integer from 0 to {_LARGEST_SAMPLE_INDEX}",
    "metadata": "an object",
    "criteria": "a list of objects",
    "cluster": "text (not empty) or an integer",
    "steps": f"a list of steps, each an object with a kind: {', '.join(STEP_KINDS)}",
}


def misfit_reason(row: Mapping[str, Any], error: ValidationError) -> str:
    """Describe the invalid columns of a row: found and expected value of each."""
    problems: dict[str, Any] = {}
    for problem in error.errors(include_url=False):
        problems.setdefault(str(problem["loc"][0]), problem)
    return "; ".join(f"{column}: {_misfit(row, column, problem)}" for column, problem in problems.items())


def _misfit(row: Mapping[str, Any], column: str, problem: Mapping[str, Any]) -> str:
    if isinstance(row.get(column), str) and "\0" in row[column]:
        return "found a text with a null character, expected none in a name"
    if column == "steps" and isinstance(row["steps"], list):
        return _step_misfit(problem)
    as_text = ", also where it is JSON" if column == "output" and isinstance(row.get(column), dict | list) else ""
    return f"found {_described(row, column)}, expected {_EXPECTED[column]}{as_text}"


def _step_misfit(problem: Mapping[str, Any]) -> str:
    """Describe the first problem of steps: step, found and expected value."""
    if len(problem["loc"]) == 1 and problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    if problem["type"] == "too_long":
        return f"found {len(problem['input']):,}, expected at most {MOST_STEPS:,} of one output"
    index, *names = problem["loc"][1:]
    name = str(names[0]) if names else ""
    if problem["type"] == "missing":
        return f"step {index} has no {name}, expected {STEP_EXPECTED.get(name, 'one')}"
    if problem["type"] == "extra_forbidden":
        return f"step {index} has the key {_cut(name)}, expected {', '.join(StepRow.model_fields)}"
    location = f"step {index}, {name}" if name else f"step {index}"
    expected = STEP_EXPECTED.get(name, "text (not empty)") if name else "an object"
    return f"{location}: found {describe_value(problem['input'])}, expected {expected}"


def _described(row: Mapping[str, Any], column: str) -> str:
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
    shortened = text if len(text) <= _MOST_SHOWN_CHARACTERS else f"{text[:_MOST_SHOWN_CHARACTERS]}..."
    return (
        shortened.encode("unicode_escape", "backslashreplace").decode("ascii")
        if not shortened.isprintable()
        else shortened
    )


_CONVERSATION = "messages"
_NO_NAME = "FOUND"  # placeholder in a hint without a likely name
# Alternative names of columns in users' files.
_COMMON_NAMES = {
    "case_id": ("id", "case", "prompt_id", "question_id", "key", "task_id"),
    "model": ("model_name", "model_id", "generator", "engine"),
    "prompt": ("question", "messages", "input", "instruction", "query", "text"),
    "output": ("response", "completion", "answer", "generation", "prediction", "text", "output_text"),
}


def map_faults(column_map: Mapping[str, str]) -> tuple[Fault, ...]:
    """Faults of a column map (gradebook's column -> the file's): targets that gradebook does not have."""
    columns = ", ".join(OUTPUT_COLUMNS)
    return tuple(
        Fault(f"--map {column}={source}", None, f"found {column}, expected one of {columns}")
        for column, source in column_map.items()
        if column not in OUTPUT_COLUMNS
    )


def column_faults(
    path: str,
    line: int | None,
    columns: Iterable[str],
    column_map: Mapping[str, str] | None = None,
    required: Iterable[str] = REQUIRED_COLUMNS,
) -> tuple[Fault, ...]:
    """Faults of a file's columns: repeated ones, and missing ones that are mapped or required."""
    column_map = column_map or {}
    columns = list(columns)
    derived = optional_columns(columns, column_map) + _of_conversations(columns, column_map)
    counts = Counter(columns)
    listing = f"found the columns {', '.join(counts)}" if counts else "found no columns"
    twice = [f"found the column {name} {count} times, expected it once" for name, count in counts.items() if count > 1]
    mapped = [
        f"{listing}; expected {source}, which --map {column}={source} names{_repeat_hint(source)}"
        for column, source in column_map.items()
        if source not in counts
    ]
    missing = [
        f"{listing}; expected {column}: name the column that holds it, --map {column}={_likely_name(column, counts)}"
        + _alternative(column, counts)
        for column in required
        if column not in column_map and column not in counts and column not in derived
    ]
    return tuple(Fault(path, line, message) for message in [*twice, *mapped, *missing])


def _repeat_hint(source: str) -> str:
    """Hint for several pairs in one option."""
    return "; repeat --map for each column" if "=" in source.partition(",")[2] else ""


def has_conversations(columns: Collection[str], column_map: Mapping[str, str], *, is_run: bool = False) -> bool:
    """Whether rows of these columns hold their answer as the last of `messages`, as OpenAI's files do.

    is_run: `messages` are an agent's run, and may stand beside a prompt or an output.
    """
    if _CONVERSATION not in columns or _CONVERSATION in column_map.values():
        return False
    return is_run or not {"prompt", "output"} & {*columns, *column_map}


def optional_columns(
    columns: Collection[str], column_map: Mapping[str, str], *, is_run: bool = False
) -> tuple[str, ...]:
    """Columns, besides prompt and output, that conversation rows may omit if no column has a likely name for them."""
    if not has_conversations(columns, column_map, is_run=is_run):
        return ()
    is_open = {column: not {column, *_COMMON_NAMES[column]} & set(columns) for column in ("case_id", "model")}
    return tuple(column for column, is_missing in is_open.items() if is_missing and column not in column_map)


def _of_conversations(columns: Collection[str], column_map: Mapping[str, str]) -> tuple[str, ...]:
    return ("prompt", "output") if has_conversations(columns, column_map) else ()


def _alternative(column: str, columns: Collection[str]) -> str:
    """Hint on another way to give a column's values, if no column of the file has them."""
    if column == "model":
        return ", or name it with --model"
    is_of_prompts = column == "case_id" and "prompt" in columns and _likely_name(column, columns) == _NO_NAME
    return ", or tell cases apart by their prompts, --map case_id=prompt" if is_of_prompts else ""


def _likely_name(column: str, columns: Iterable[str]) -> str:
    """Column in the file that most likely corresponds to this one, or the word FOUND."""
    present = set(columns)
    return next((name for name in _COMMON_NAMES.get(column, ()) if name in present), _NO_NAME)
