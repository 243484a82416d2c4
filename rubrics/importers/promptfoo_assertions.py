"""Assertions of promptfoo as criteria, and the shapes of its results and configs."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from gradebook.rubrics.files.validate import validate_case_criteria
from gradebook.rubrics.importers.case_rows import NonBlank, met_levels
from gradebook.rubrics.importers.foreign_file import OpenMapping
from gradebook.rubrics.importers.ids import DistinctIds
from gradebook.rubrics.importers.metadata import FieldCounts, as_metadata, drop_empty, plain_number
from gradebook.rubrics.importers.results import LEVELS
from gradebook.rubrics.model.json_values import Row
from gradebook.rubrics.model.rubric import LARGEST_WEIGHT
from gradebook.rubrics.text.plain_words import quote_value

NAME = "promptfoo"
ASSERT_SET = "assert-set"
HUMAN = "human"
RUN_FIRST = "run promptfoo eval -o results.json and import the results, as gradebook follows no address"

Vars = Annotated[dict[str, Any], BeforeValidator(lambda value: {} if value is None else value)]


def _refuse_files(value: Any) -> Any:
    if isinstance(value, str):
        raise ValueError(f"found {quote_value(value)}, expected a list of tests: {RUN_FIRST}")
    return [] if value is None else value


Listed = Annotated[list[Any], BeforeValidator(_refuse_files)]


class Assertion(OpenMapping):
    """Assertion of a test, or a set of them."""

    type: NonBlank
    value: Any = None
    threshold: float | None = None
    weight: Annotated[float, Field(ge=0, le=LARGEST_WEIGHT)] | None = None
    metric: str | None = None
    members: Annotated[list["Assertion"] | None, Field(validation_alias="assert")] = None


class Test(OpenMapping):
    """Test of a config, or of a result."""

    description: str | None = None
    vars: Vars = Field(default_factory=dict)
    assertions: Annotated[list[Assertion] | None, Field(validation_alias="assert")] = None
    options: dict[str, Any] | None = None


class Component(OpenMapping):
    """Outcome of one assertion."""

    passed: Annotated[bool | None, Field(validation_alias="pass")] = None
    score: float | None = None
    reason: str | None = None
    assertion: Assertion | None = None
    metadata: dict[str, Any] | None = None


class Grading(OpenMapping):
    """Outcome of all assertions."""

    components: Annotated[list[Component | None] | None, Field(validation_alias="componentResults")] = None


class Provider(OpenMapping):
    """Model that answered."""

    id: str | None = None
    label: str | None = None


class Prompt(OpenMapping):
    """Prompt as it was sent."""

    raw: Any = None
    label: str | None = None


class Response(OpenMapping):
    """Answer of the model."""

    output: Any = None
    error: Any = None
    usage: Annotated[dict[str, Any] | None, Field(validation_alias="tokenUsage")] = None
    cost: Any = None


class Result(OpenMapping):
    """Answer of one model to one prompt of one test."""

    prompt_id: Annotated[str | None, Field(validation_alias="promptId")] = None
    prompt_index: Annotated[int, Field(validation_alias="promptIdx", ge=0)] = 0
    test_index: Annotated[int, Field(validation_alias="testIdx", ge=0)]
    test: Annotated[Test, Field(validation_alias="testCase")] = Test()
    provider: Annotated[
        Provider | None, BeforeValidator(lambda value: {"id": value} if isinstance(value, str) else value)
    ] = None
    prompt: Annotated[
        Prompt | None, BeforeValidator(lambda value: {"raw": value} if isinstance(value, str) else value)
    ] = None
    vars: Vars = Field(default_factory=dict)
    response: Response | None = None
    error: str | None = None
    score: Any = None
    grading: Annotated[Grading | None, Field(validation_alias="gradingResult")] = None
    latency_ms: Annotated[Any, Field(validation_alias="latencyMs")] = None
    cost: Any = None
    usage: Annotated[dict[str, Any] | None, Field(validation_alias="tokenUsage")] = None


class Config(OpenMapping):
    """Config of an evaluation: prompts, tests, and what all tests share."""

    description: str | None = None
    prompts: Any = None
    tests: Listed = Field(default_factory=list)
    default: Annotated[Test | None, Field(validation_alias="defaultTest")] = None


JUDGED = ("llm-rubric", "model-graded-closedqa", "g-eval", "agent-rubric", "search-rubric", "pi")
OF_REFERENCE = ("similar", "similar:cosine", "factuality", "model-graded-factuality", "context-recall")
_LONGEST_VALUE = 200
_BELOW_ONE = 0.9999995  # upper bound of `edit_similarity` for two different texts
_SLOT = re.compile(r"\{\{-?\s*+([A-Za-z_][\w.]*+)\s*+-?\}\}")
_BRACES = re.compile(r"\{\{|\{%|\{#|\}\}|%\}|#\}")
_FILE = "file://"


def flattened(assertions: Sequence[Assertion]) -> Iterator[Assertion]:
    """Assertions without sets: the members of a set share its weight."""
    for assertion in assertions:
        if assertion.type != ASSERT_SET:
            yield assertion
            continue
        members = list(flattened(assertion.members or ()))
        total = sum(weight_of(member) for member in members)
        share = weight_of(assertion) / total if total else 0.0
        yield from (member.model_copy(update={"weight": weight_of(member) * share}) for member in members)


def weight_of(assertion: Assertion) -> float:
    """Weight of an assertion; 1 if it has none."""
    return 1.0 if assertion.weight is None else assertion.weight


def rendered(value: Any, values: Mapping[str, Any]) -> Any:
    """Copy of a value with slots filled from the test's variables; slots with other names stay."""
    if isinstance(value, str):
        return _SLOT.sub(lambda slot: _filled(slot, values), value)
    if isinstance(value, list):
        return [rendered(entry, values) for entry in value]
    if isinstance(value, dict):
        return {key: rendered(entry, values) for key, entry in value.items()}
    return value


def _filled(slot: re.Match[str], values: Mapping[str, Any]) -> str:
    value: Any = values
    for name in slot[1].split("."):
        if not isinstance(value, Mapping) or name not in value:
            return slot[0]
        value = value[name]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def reference_of(assertions: Sequence[Assertion], values: Mapping[str, Any]) -> str | None:
    """Text that a similarity or factuality assertion compares with, which becomes the row's reference."""
    texts = (rendered(assertion.value, values) for assertion in assertions if _plain_type(assertion) in OF_REFERENCE)
    return next((text for text in texts if isinstance(text, str) and text.strip()), None)


def criteria_of(
    assertions: Sequence[Assertion], values: Mapping[str, Any], stored_fields: FieldCounts, *, by_ratings: bool
) -> list[Row | None]:
    """Criterion of each assertion, in order; one that gradebook can't decide becomes a criterion by ratings, or None.

    Each such assertion is counted in `stored_fields`, with the reason.
    """
    ids = DistinctIds("assertion")
    reference = reference_of(assertions, values)
    criteria: list[Row | None] = []
    for assertion in assertions:
        columns, reason = _columns(assertion, values, reference)
        if columns is None:
            stored_fields.note(f"assert {assertion.type} ({reason})")
        if columns is None and not by_ratings and assertion.type != HUMAN:
            criteria.append(None)
            continue
        criteria.append(
            _criterion(assertion, ids.take(assertion.metric or assertion.type), columns, values, stored_fields)
        )
    return criteria


def _criterion(
    assertion: Assertion, criterion_id: str, columns: Row | None, values: Mapping[str, Any], stored_fields: FieldCounts
) -> Row:
    value = rendered(assertion.value, values)
    of_ratings: Row = {
        "description": _description(assertion, value),
        "levels": [dict(level) for level in LEVELS],
        "method": {"type": "ratings"},
    }
    extra = stored_fields.note_all("assert.", drop_empty(assertion.unknown_keys))
    return {
        "id": criterion_id,
        "weight": plain_number(weight_of(assertion)),
        **(columns or of_ratings),
        **as_metadata(NAME, {"type": assertion.type, **drop_empty({"threshold": assertion.threshold}), **extra}),
    }


def _description(assertion: Assertion, value: Any) -> str:
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    plain = _BRACES.sub("", text).strip()
    shortened = plain if len(plain) <= _LONGEST_VALUE else f"{plain[: _LONGEST_VALUE - 3]}..."
    return f"promptfoo: {assertion.type}{f' {shortened}' if shortened else ''}"


def _plain_type(assertion: Assertion) -> str:
    return assertion.type.removeprefix("not-")


def _columns(assertion: Assertion, values: Mapping[str, Any], reference: str | None) -> tuple[Row | None, str]:
    """(description, method and levels of a criterion, ""), or (None, reason) if gradebook can't decide it."""
    base, is_negated = _plain_type(assertion), assertion.type.startswith("not-")
    if isinstance(assertion.value, str) and assertion.value.startswith(_FILE):
        return None, "its value is in a file"
    if "transform" in assertion.unknown_keys:
        return None, "its transform is code"
    value = rendered(assertion.value, values)
    columns = (
        _judged(base, value, is_negated=is_negated)
        if base in JUDGED
        else _column_criterion(base, assertion, value, reference)
        if not is_negated and base in (*OF_REFERENCE, "context-faithfulness", "answer-relevance")
        else _text_check(base, assertion, value, is_negated=is_negated)
    )
    if columns is None:
        return None, "nothing here decides it"
    faults = validate_case_criteria([{"id": "a", **columns}])[1]
    return (
        (None, faults[0][1].partition("settings.")[2] or "its value does not fit a check") if faults else (columns, "")
    )


def _judged(base: str, value: Any, *, is_negated: bool) -> Row | None:
    texts = value if isinstance(value, list) else [value]
    if not all(isinstance(text, str) and text.strip() for text in texts) or not texts:
        return None
    levels = met_levels()
    if is_negated:
        levels = [{**level, "score": 1 - level["score"]} for level in reversed(levels)]
    description = _BRACES.sub("", "\n".join(texts)).strip()
    if not description:
        return None
    return {"description": description, "levels": levels, "method": {"type": "judge"}}


def _column_criterion(base: str, assertion: Assertion, value: Any, reference: str | None) -> Row | None:
    """Criterion of an assertion that compares columns of the row, by claims or similarity; None for others."""
    threshold = {} if assertion.threshold is None else {"threshold": assertion.threshold}
    if base == "context-faithfulness":
        method: Row = {"type": "claims", "against": "context"}
        return {"description": "The context supports the output's claims.", **threshold, "method": method}
    if base == "answer-relevance":
        text = "The output answers what the prompt asks."
        return {"description": text, "levels": met_levels(), "method": {"type": "judge"}}
    if value != reference:
        return None
    if base == "context-recall":
        method = {"type": "claims", "against": "context", "of": "reference"}
        return {"description": "The context supports the reference's claims.", **threshold, "method": method}
    if base.startswith("similar"):
        method = {"type": "similarity", "against": "reference", "is_rescaled": False}
        text = "The output is like the reference."
        return {"description": text, "threshold": assertion.threshold or 0.75, "method": method}
    text = "The output agrees with the facts of the reference."
    return {"description": text, "levels": met_levels(), "method": {"type": "judge"}}


def _text_check(base: str, assertion: Assertion, value: Any, *, is_negated: bool) -> Row | None:
    """Check of the output's text; None if none decides the assertion."""
    if base.removeprefix("i") in ("contains", "contains-any", "contains-all"):
        return _contains(base, value, is_negated=is_negated)
    if base == "equals":
        return _equals(value, is_negated=is_negated)
    if base == "starts-with":
        return _starts_with(_text(value), is_negated=is_negated)
    does = "does not match" if is_negated else "matches"
    negated: Row = {"is_negated": True} if is_negated else {}
    if base == "regex":
        return _check("matches_regex", f"The output {does} {_text(value)}", {"pattern": value, **negated})
    if base == "is-refusal":
        settings: Row = {} if is_negated else {"is_negated": True}
        return _check("no_refusal", f"The output is {'no' if is_negated else 'a'} refusal", settings)
    return None if is_negated else _format_check(base, value) or _bounds_check(base, assertion.threshold, value)


def _check(check: str, sentence: str, settings: Row) -> Row:
    plain = _BRACES.sub("", sentence)
    shortened = plain if len(plain) <= _LONGEST_VALUE else f"{plain[: _LONGEST_VALUE - 3]}..."
    return {"description": f"{shortened}.", "method": {"type": "check", "check": check, "settings": settings}}


def _contains(base: str, value: Any, *, is_negated: bool) -> Row | None:
    is_list = base.endswith(("-any", "-all"))
    listed = value.split(",") if is_list and isinstance(value, str) else value if is_list else [value]
    if not isinstance(listed, list):
        return None
    texts = [_text(entry).strip() if is_list else _text(entry) for entry in listed]
    which = "all" if base.endswith("-all") else "any"
    settings: Row = {which: texts, **({} if base[0] == "i" else {"case_sensitive": True})}
    does = "does not contain" if is_negated else "contains"
    several = f"{which} of " if len(texts) > 1 else ""
    return _check(
        "not_contains" if is_negated else "contains", f"The output {does} {several}{', '.join(texts)}", settings
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _equals(value: Any, *, is_negated: bool) -> Row | None:
    if isinstance(value, dict | list):
        return None if is_negated else _check("json_equals", f"The output is the JSON {_text(value)}", {"value": value})
    exact: Row = {"expected": _text(value), "fold_whitespace": False}
    if is_negated:
        return _check("edit_similarity", f"The output is not {_text(value)}", {**exact, "max": _BELOW_ONE})
    return _check("matches_reference", f"The output is {_text(value)}", exact)


def _starts_with(text: str, *, is_negated: bool) -> Row:
    if is_negated:
        pattern = f"^{re.escape(text)}"
        return _check(
            "matches_regex", f"The output does not start with {text}", {"pattern": pattern, "is_negated": True}
        )
    return _check("starts_with", f"The output starts with {text}", {"any": [text], "strip": False})


def _format_check(base: str, value: Any) -> Row | None:
    """Check of the output's form; None for another assertion."""
    forms: dict[str, tuple[str, str, Row]] = {
        "is-json": ("json_valid", "The output is JSON", {}),
        "contains-json": ("has_json_object", "The output contains JSON", {"kind": "any", "is_only_one": False}),
        "is-xml": ("xml_valid", "The output is XML", {"fence": "never"}),
        "is-sql": ("sql_valid", "The output is SQL", {"fence": "never"}),
        "contains-sql": ("sql_valid", "The output is SQL, bare or in a code fence", {}),
    }
    if base not in forms:
        return None
    check, sentence, settings = forms[base]
    if value is None:
        return _check(check, sentence, settings)
    if isinstance(value, dict) and base.endswith("-json"):
        fixed_settings: Row = {"extract": "found"} if base == "contains-json" else {}
        return _check("json_schema", f"{sentence} of the schema", {"schema": value, **fixed_settings})
    return None


def _bounds_check(base: str, threshold: float | None, value: Any) -> Row | None:
    """Check of a number within bounds; None for another assertion."""
    measures = {"latency": "latency_ms", "cost": "cost_usd"}
    if base in measures and threshold is not None:
        settings = {"measure": measures[base], "max": plain_number(threshold)}
        return _check("step_total", f"The {measures[base]} of the output is at most {threshold:g}", settings)
    if base == "word-count":
        bounds = value if isinstance(value, dict) else {"min": value, "max": value}
        return _check("length_words", f"The number of words lies within {_text(value)}", bounds)
    if base in ("rouge-n", "bleu"):
        check, least = ("rouge_n", 0.75) if base == "rouge-n" else ("bleu", 0.5)
        settings = {"expected": value, "min": least if threshold is None else threshold}
        return _check(check, f"The output is like {_text(value)}, by {base}", settings)
    return None
