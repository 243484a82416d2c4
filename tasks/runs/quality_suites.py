"""Expectation suites of a team (`--quality FILE.json`): great-expectations' JSON form, read without great-expectations.

The file may be of others. An expectation reads one table: what would run SQL or code, or fetch something, is refused.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, ValidationError

from gradebook.rubrics.model.errors import ExpectationsError, Fault, FaultList
from gradebook.rubrics.model.levels import Frozen
from gradebook.rubrics.text.named_files import read_whole
from gradebook.rubrics.text.plain_words import describe, keys_of, place_text, quote_value, unknown_word
from gradebook.tasks.lake.sql import declared_tables

MOST_BYTES, MOST_EXPECTATIONS, DEEPEST = 1_000_000, 1_000, 20
OUTPUTS, SCORES = ("outputs",), ("verdicts", "criterion_scores", "run_scores")  # checked before judging, and after
TABLES = (*OUTPUTS, *SCORES)
COLUMN_KEYS = ("column", "column_A", "column_B")
_SQL = "expected a rule about columns; a suite runs no SQL (`gradebook sql` does)"
_GIVEN = "expected a rule about values: gradebook gives the tables their columns"
_REGEX = "expected a regex in its place: LIKE is SQL"
REFUSED = {
    "unexpected_rows_expectation": _SQL,
    "expect_query_results_to_match_comparison": _SQL,
    "expect_table_row_count_to_equal_other_table": "expected a rule about one table",
    "expect_column_values_to_match_like_pattern": _REGEX,
    "expect_column_values_to_match_like_pattern_list": _REGEX,
    "expect_column_values_to_not_match_like_pattern": _REGEX,
    "expect_column_values_to_not_match_like_pattern_list": _REGEX,
    "expect_column_values_to_match_json_schema": "expected a criterion of the method schema, which fetches nothing",
    "expect_table_column_count_to_be_between": _GIVEN,
    "expect_table_column_count_to_equal": _GIVEN,
    "expect_table_columns_to_match_ordered_list": _GIVEN,
    "expect_table_columns_to_match_set": _GIVEN,
}
# Of every expectation of great-expectations, and set by gradebook, or beside `kwargs`.
_OWN_KWARGS = {
    *("id", "meta", "notes", "description", "severity", "rendered_content", "library_metadata"),
    *("result_format", "catch_exceptions", "windows", "batch_id", "condition_parser"),
}
_OPERATORS = ("==", "!=", "<", "<=", ">", ">=", "IN", "NOT_IN")
_CONDITION = 'expected {"type": "comparison", "column": {"name": COLUMN}, "operator": "==", "parameter": VALUE}'


class Expectation(Frozen):
    """One expectation."""

    type: str
    kwargs: dict[str, Any] = Field(default_factory=dict)
    severity: Literal["critical", "warning", "info"] = "critical"
    # Written by great-expectations, and not read:
    id: Any = None
    meta: Any = None
    notes: Any = None
    description: Any = None
    rendered_content: Any = None


class ExpectationSuite(Frozen):
    """Expectations about one table. name: the table, or TABLE.ANYTHING."""

    name: Annotated[str, Field(max_length=200)]
    expectations: Annotated[tuple[Expectation, ...], Field(min_length=1, max_length=MOST_EXPECTATIONS)]
    id: Any = None
    meta: Any = None
    notes: Any = None

    @property
    def table(self) -> str:
        return self.name.partition(".")[0]

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the expectations read, each once."""
        names = (name for expectation in self.expectations for _, name in columns_of(expectation.kwargs))
        return tuple(dict.fromkeys(names))

    def about(self, index: int) -> str:
        """Name of an expectation in messages."""
        return f"suite {self.name}, expectation {index + 1}"


def read_quality_suites(path: Path) -> tuple[ExpectationSuite, ...]:
    """Read one suite or a list. Raises `ExpectationsError` with all faults found without great-expectations."""
    faults = FaultList(ExpectationsError)
    content = _read_json(path)
    suites = []
    for index, body in enumerate(content if isinstance(content, list) else [content]):
        label = f"suite {index + 1}" if isinstance(content, list) else "suite"
        try:
            suite = ExpectationSuite.model_validate(body)
        except ValidationError as error:
            faults.add(Fault(str(path), None, message) for message in _model_faults(error, body, label))
        else:
            suites.append(suite)
            faults.add(Fault(str(path), None, message) for message in _suite_faults(suite))
    names = [suite.name for suite in suites]
    for name in sorted({name for name in names if names.count(name) > 1}):
        faults.add([Fault(str(path), None, f"suite {name}: found twice, expected unique names, such as {name}.2")])
    faults.raise_any()
    return tuple(suites)


def columns_of(kwargs: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Columns that an expectation names, each with its place."""
    for key in COLUMN_KEYS:
        if key in kwargs:
            yield key, kwargs[key]
    names = kwargs.get("column_list")
    for index, name in enumerate(names if isinstance(names, list) else ()):
        yield f"column_list[{index}]", name
    yield from _condition_columns(kwargs.get("row_condition"), "row_condition")


def _condition_columns(condition: Any, location: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(condition, dict):
        return
    if isinstance(column := condition.get("column"), dict):
        yield f"{location}.column.name", column.get("name")
    conditions = condition.get("conditions")
    for index, part in enumerate(conditions if isinstance(conditions, list) else ()):
        yield from _condition_columns(part, f"{location}.conditions[{index}]")


def _read_json(path: Path) -> Any:
    def refuse(message: str) -> ExpectationsError:
        return ExpectationsError((Fault(str(path), None, message),))

    try:
        content = json.loads(read_whole(path, MOST_BYTES))
    except json.JSONDecodeError as error:
        message = f"found no JSON ({error.msg} in line {error.lineno}), expected an expectation suite"
        raise refuse(message) from None
    except RecursionError:
        raise refuse(f"found more than {DEEPEST} levels of nesting, expected fewer") from None
    except (OSError, ValueError) as error:  # a NUL in a name, no UTF-8, or a number of more than 4,300 digits
        reason = error.strerror if isinstance(error, OSError) else "no JSON in UTF-8"
        raise refuse(f"can't be read ({reason}), expected a file with an expectation suite") from None
    if _depth(content, 0) > DEEPEST:
        raise refuse(f"found more than {DEEPEST} levels of nesting, expected fewer")
    return content


def _depth(value: Any, above: int) -> int:
    """Levels of nesting; no deeper than one level too many."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return max((_depth(child, above + 1) for child in inner), default=above) if above <= DEEPEST else above


def _model_faults(error: ValidationError, body: Any, label: str) -> Iterator[str]:
    name = body.get("name") if isinstance(body, dict) else None
    label = f"suite {name}" if isinstance(name, str) and len(name) <= 200 else label
    faults = error.errors(include_url=False)
    inside = [fault for fault in faults if _is_inside(fault["loc"])]
    for fault in faults:
        place = fault["loc"]
        if _is_inside(place):
            about = f"{label}, expectation {int(place[1]) + 1}"
            yield f"{about}: {describe(fault, place[2:], keys_of(Expectation))[1]}"
        elif place != ("expectations",) or not inside:  # without its wrong ones, the list would be too short
            yield f"{label}: {describe(fault, place, keys_of(ExpectationSuite))[1]}"


def _is_inside(place: tuple[str | int, ...]) -> bool:
    """Whether a fault is that of an expectation."""
    return place[:1] == ("expectations",) and len(place) > 1


def _suite_faults(suite: ExpectationSuite) -> Iterator[str]:
    if suite.table not in TABLES:
        expected = unknown_word(suite.table, TABLES)
        yield f"suite {suite.name}: found the table {quote_value(suite.table)}, expected {expected}"
        return
    columns = [*declared_tables()[suite.table].columns]
    for index, expectation in enumerate(suite.expectations):
        for message in _expectation_faults(expectation, columns):
            yield f"{suite.about(index)}: {message}"


def _expectation_faults(expectation: Expectation, columns: list[str]) -> Iterator[str]:
    kwargs = expectation.kwargs
    if expectation.type in REFUSED:
        yield f"type: found {expectation.type}, {REFUSED[expectation.type]}"
        return
    for key in sorted(_OWN_KWARGS.intersection(kwargs)):
        yield f"kwargs.{key}: found {quote_value(kwargs[key])}, expected no such key"
    for location, column in columns_of(kwargs):
        if not isinstance(column, str) or column not in columns:
            yield f"kwargs.{location}: found {quote_value(column)}, expected {unknown_word(str(column), columns)}"
    yield from _value_faults(kwargs, ("kwargs",))
    yield from _pattern_faults(kwargs)
    if kwargs.get("row_condition") is not None:
        yield from _condition_faults(kwargs["row_condition"], "kwargs.row_condition")


def _value_faults(value: Any, place: tuple[str | int, ...]) -> Iterator[str]:
    if isinstance(value, float) and not math.isfinite(value):
        yield f"{place_text(place)}: found {value}, expected a finite number"
    for key, child in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if isinstance(key, str) and key.startswith("$"):
            yield f"{place_text(place)}: found the parameter {quote_value(key)}, expected a value"
        yield from _value_faults(child, (*place, key))


def _pattern_faults(kwargs: dict[str, Any]) -> Iterator[str]:
    """Faults for patterns that RE2, which always ends, does not accept: pandas would match them by backtracking."""
    patterns = kwargs["regex_list"] if isinstance(kwargs.get("regex_list"), list) else []
    for pattern in [*patterns, *([kwargs["regex"]] if "regex" in kwargs else [])]:
        try:
            pc.match_substring_regex(pa.array([""]), str(pattern))
        except (pa.ArrowInvalid, UnicodeError):
            yield f"kwargs: found the pattern {quote_value(pattern)}, expected a regular expression that RE2 accepts"


def _condition_faults(condition: Any, location: str) -> Iterator[str]:
    """Faults of a condition on rows. great-expectations hands it to pandas as code, so each part is checked."""
    if not isinstance(condition, dict):
        yield f"{location}: found {quote_value(condition)}, {_CONDITION}"
        return
    kind = condition.get("type")
    keys: dict[object, set[str]] = {
        "comparison": {"type", "column", "operator", "parameter"},
        "nullity": {"type", "column", "is_null"},
        "and": {"type", "conditions"},
        "or": {"type", "conditions"},
    }
    if not isinstance(kind, str) or kind not in keys or condition.keys() != keys[kind]:
        yield f"{location}: found a {quote_value(kind)} with the keys {', '.join(map(str, condition))}, {_CONDITION}"
    elif kind in ("and", "or"):
        conditions = condition["conditions"]
        if not isinstance(conditions, list) or not conditions:
            yield f"{location}.conditions: found {quote_value(conditions)}, expected a list of conditions"
            return
        for index, inner in enumerate(conditions):
            yield from _condition_faults(inner, f"{location}.conditions[{index}]")
    elif not isinstance(condition["column"], dict) or condition["column"].keys() != {"name"}:
        yield f'{location}.column: found {quote_value(condition["column"])}, expected {{"name": COLUMN}}'
    elif kind == "comparison":
        yield from _comparison_faults(condition["operator"], condition["parameter"], location)
    elif not isinstance(condition["is_null"], bool):
        yield f"{location}.is_null: found {quote_value(condition['is_null'])}, expected true or false"


def _comparison_faults(operator: Any, parameter: Any, location: str) -> Iterator[str]:
    if operator not in _OPERATORS:
        yield f"{location}.operator: found {quote_value(operator)}, expected one of {', '.join(_OPERATORS)}"
    is_list = operator in ("IN", "NOT_IN")
    values = parameter if isinstance(parameter, list) and is_list else [parameter]
    if not all(isinstance(value, str | int | float) for value in values):
        expected = "a list of texts or numbers" if is_list else "a text or a number"
        yield f"{location}.parameter: found {quote_value(parameter)}, expected {expected}"
