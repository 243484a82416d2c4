"""Checks of schemas, and validation of outputs against them.

Validation is jsonschema's, draft 2020-12 unless `$schema` names another, with the keywords of `keywords.py`. `format`
is an annotation, as is the default of the drafts.
"""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from itertools import islice
from typing import Any

import pyarrow as pa
from jsonschema.protocols import Validator

from gradebook.rubrics.check_kit.check import CheckVerdicts
from gradebook.rubrics.check_kit.json_text import Extract, NotJson, TooManyBrackets, extract_json
from gradebook.rubrics.check_kit.regexes import costly_regex, regex_fault
from gradebook.rubrics.check_kit.rows import RowFinding, gather_rows
from gradebook.rubrics.check_kit.stack import on_a_full_stack
from gradebook.rubrics.schemas.drafts import (
    Draft,
    Schema,
    SchemaFault,
    describe_error,
    draft_of,
    safe_class,
    without_dialect,
)
from gradebook.rubrics.schemas.metering import TooManySteps, metered
from gradebook.rubrics.schemas.references import reached_schemas, registry_of

MOST_ERRORS_SHOWN = 3
MOST_PROBE_STEPS = 20_000
PROBES: tuple[Any, ...] = (None, True, 0, "", [], {})
ENDLESS = "found endless nesting, or a $ref that leads to itself; expected a finite schema"
NO_SCHEMAS: Mapping[str, Schema] = {}


def check_schema(schema: Schema, others: Mapping[str, Schema] = NO_SCHEMAS) -> str | None:
    """First fault of a schema, in one sentence; None if outputs can be validated with it.

    others: schemas that it may refer to, by name. Refused are: schemas that violate their draft's own schema, an
    unknown `$schema`, a nested one or one of another draft, a reference to an unknown schema, a pattern that RE2
    rejects, endless references, and schemas that are too large or take too many steps for a bare value.
    """
    fault = _prepared(schema, others)
    return fault if isinstance(fault, str) else None


def validate_outputs(
    outputs: pa.Array, schema: Schema, others: Mapping[str, Schema] = NO_SCHEMAS, extract: Extract = "whole"
) -> CheckVerdicts:
    """Validate each output's JSON against the schema.

    outputs: (output,). others: schemas that it may refer to, by name. The evidence of a failure lists the first three
    errors, each with its JSON path, or the reason why the output is not JSON. An output is unscored if it takes too
    many steps, is nested too deeply or has a number that is too large. Raises `ValueError` for a schema that
    `check_schema` refuses.
    """
    validator = _prepared(schema, others)
    if isinstance(validator, str):
        raise ValueError(f"schema: {validator}")
    return gather_rows(_output_finding(text, validator, extract) for text in outputs.to_pylist())


def _output_finding(text: str, validator: Validator, extract: Extract) -> RowFinding:
    try:
        fault = on_a_full_stack(partial(_instance_fault, extract_json(text, extract), validator))
        return RowFinding(fault is None, fault)
    except NotJson as error:
        return RowFinding(False, str(error))
    except (TooManyBrackets, TooManySteps) as error:
        return RowFinding(None, reason=str(error))
    except RecursionError:
        return RowFinding(None, reason="nested too deeply to validate")
    except OverflowError:
        return RowFinding(None, reason="holds a number too large to validate")


def _instance_fault(instance: Any, validator: Validator) -> str | None:
    with metered():
        errors = list(islice(validator.iter_errors(instance), MOST_ERRORS_SHOWN))
    return "; ".join(describe_error(error) for error in errors) or None


def _prepared(schema: Schema, others: Mapping[str, Schema]) -> Validator | str:
    """Validator that fetches nothing, or the fault of the schema."""
    try:
        text = on_a_full_stack(lambda: json.dumps([schema, dict(others)], allow_nan=False))
        return on_a_full_stack(partial(_prepare, text))
    except RecursionError:
        return ENDLESS
    except (ValueError, TypeError) as error:
        return f"found a value that JSON can't hold ({error}), expected plain numbers and text"


@lru_cache(maxsize=256)  # rows with per-case criteria tend to repeat the same schemas
def _prepare(text: str) -> Validator | str:
    """Build a validator as `_prepared` does, from the schema and the others as JSON text."""
    schema, others = json.loads(text)
    try:
        draft = draft_of(schema, others)
        for subschema in reached_schemas(schema, others, draft):
            _refuse_keywords(subschema)
        validator = _build(schema, others, draft)
        with metered(MOST_PROBE_STEPS):
            for probe in PROBES:
                validator.is_valid(probe)  # an endless reference raises `RecursionError`
    except SchemaFault as fault:
        return str(fault)
    except TooManySteps as error:
        return f"found a schema over which {error} for an empty value, expected one that needs fewer"
    except ValueError as error:
        return f"found an $id that is not an address ({error}), expected a URI"
    return validator


def _build(schema: Schema, others: Mapping[str, Schema], draft: Draft) -> Validator:
    return safe_class(draft)(without_dialect(schema), registry=registry_of(schema, others, draft))


def _refuse_keywords(subschema: Schema) -> None:
    if "$schema" in subschema:
        raise SchemaFault(f"$schema: found {subschema['$schema']!r} inside the schema, expected it only at the top")
    for pattern in _patterns_of(subschema):
        fault = regex_fault(pattern)
        if fault is not None:
            raise SchemaFault(f"pattern: found {pattern!r}, expected a regular expression that RE2 accepts: {fault}")
        if (fault := costly_regex(pattern)) is not None:
            raise SchemaFault(f"pattern: {fault}")


def _patterns_of(subschema: Schema) -> Iterator[str]:
    yield from subschema.get("patternProperties", ())
    if "pattern" in subschema:
        yield subschema["pattern"]
