"""One-row shards for examples and for trying out a check."""

import json
from typing import Any

import pyarrow as pa

from gradebook.rubrics.check_kit.check import Check, Example
from gradebook.rubrics.model.outputs import shard_column
from gradebook.rubrics.model.steps import StepRow

MADE_COLUMNS = {"audio": pa.binary(), "audio_fault": pa.string()}  # derived from an output when a check asks for them


def example_shard(check: Check, example: Example) -> pa.Table:
    """One-row shard with the columns that the check reads; columns missing from the example are null.

    `context` may be a text or a list of texts, `metadata` a mapping, `steps` as in a row.
    """
    given = {"output": example.output, **example.others}
    return pa.table({name: _column(name, _stored(name, given.get(name))) for name in check.columns})


def _column(name: str, value: Any) -> pa.Array:
    return pa.array([value], MADE_COLUMNS[name]) if name in MADE_COLUMNS else shard_column(name, [value])


def _stored(name: str, value: Any) -> Any:
    if name == "context" and isinstance(value, str):
        return [value]
    if name == "steps" and value is not None:
        return [StepRow.model_validate(step).as_step() for step in value]
    return json.dumps(value) if name == "metadata" and value is not None else value
