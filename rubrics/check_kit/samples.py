"""One-row shards for examples and for trying out a check."""

import json
from typing import Any

import pyarrow as pa

from gradebook.rubrics.check_kit.check import Check, Example
from gradebook.rubrics.model.outputs import SHARD_SCHEMA
from gradebook.rubrics.model.steps import StepRow, steps_array

MADE_COLUMNS = {"audio": pa.binary(), "audio_fault": pa.string()}  # derived from an output when a check asks for them


def example_shard(check: Check, example: Example) -> pa.Table:
    """One-row shard with the columns that the check reads; columns missing from the example are null.

    `context` may be a text or a list of texts, `metadata` a mapping, `steps` as in a row.
    """
    given = {"output": example.output, **example.others}
    return pa.table({name: _array(name, given.get(name)) for name in check.columns})


def _array(name: str, value: Any) -> pa.Array:
    if name == "steps":
        return steps_array([value and [StepRow.model_validate(step).as_step() for step in value]])
    return pa.array([_stored(name, value)], _type_of(name))


def _type_of(name: str) -> pa.DataType:
    return MADE_COLUMNS[name] if name in MADE_COLUMNS else SHARD_SCHEMA.field(name).type


def _stored(name: str, value: Any) -> Any:
    if name == "context" and isinstance(value, str):
        return [value]
    return json.dumps(value) if name == "metadata" and value is not None else value
