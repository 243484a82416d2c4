"""Faults of a team's file of expectation suites, found without great-expectations."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.model.errors import ExpectationsError
from gradebook.tasks.runs.quality_suites import MOST_BYTES, read_quality_suites
from tests.support.law_over import law_over

NOT_NULL = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "output"}}


def suite(*expectations: Any, name: Any = "outputs", **others: Any) -> dict[str, Any]:
    return {"name": name, "expectations": list(expectations), **others}


def where(condition: Any) -> dict[str, Any]:
    """Suite whose expectation is about some rows."""
    return suite(NOT_NULL | {"kwargs": {"column": "output", "row_condition": condition}})


def kwargs(**given: Any) -> dict[str, Any]:
    return suite(NOT_NULL | {"kwargs": {"column": "output"} | given})


def comparison(**given: Any) -> dict[str, Any]:
    return {"type": "comparison", "column": {"name": "model"}, "operator": "==", "parameter": "m"} | given


def deep(levels: int) -> Any:
    return [] if levels == 0 else [deep(levels - 1)]


def faults_of(content: Any, folder: Path) -> list[str]:
    file = folder / "suite.json"
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(ExpectationsError) as raised:
        read_quality_suites(file)
    assert all(fault.path == str(file) for fault in raised.value.faults)
    return [fault.message for fault in raised.value.faults]


FIRST = "suite outputs, expectation 1: "
REFUSED = {
    "no JSON": (b"{", "found no JSON (Expecting property name enclosed in double quotes in line 1), expected"),
    "no UTF-8": (b'"\xff"', "can't be read (no JSON in UTF-8), expected a file"),
    "too large": (b" " * (MOST_BYTES + 1), "can't be read (more than 1,000,000 bytes)"),
    "endless": (b"[" * 100_000, "found more than 20 levels of nesting, expected fewer"),
    "deep": (deep(30), "found more than 20 levels of nesting, expected fewer"),
    "another kind": (3, "suite: found 3, expected a mapping of keys to values"),
    "no name": ({"expectations": [NOT_NULL]}, "suite: found no 'name', expected one"),
    "nothing": (suite(), "suite outputs: expectations: found an empty list, expected at least 1 entry"),
    "unknown key": (suite(NOT_NULL, odd=1), "suite outputs: found the unknown key 'odd', expected one of"),
    "second suite": ([suite(NOT_NULL), {"expectations": [NOT_NULL]}], "suite 2: found no 'name', expected one"),
    "same name": ([suite(NOT_NULL)] * 2, "suite outputs: found twice, expected unique names, such as outputs.2"),
    "table": (suite(NOT_NULL, name="output.x"), "suite output.x: found the table 'output', expected one of crit"),
    "key of an expectation": (suite(NOT_NULL | {"kwarg": 1}), FIRST + "found the unknown key 'kwarg', expected one of"),
    "severity": (
        suite(NOT_NULL | {"severity": "error"}),
        FIRST + "severity: found 'error', expected one of 'critical'",
    ),
    "column": (kwargs(column="outptu"), FIRST + "kwargs.column: found 'outptu', expected one of case_id"),
    "column of a list": (kwargs(column_list=["model", 3]), FIRST + "kwargs.column_list[1]: found 3, expected one of"),
    "SQL": (
        suite({"type": "unexpected_rows_expectation"}),
        FIRST + "type: found unexpected_rows_expectation, expected",
    ),
    "engine": (kwargs(condition_parser="pandas"), FIRST + "kwargs.condition_parser: found 'pandas', expected no such"),
    "parameter": (kwargs(min_value={"$PARAMETER": "now()"}), FIRST + "kwargs.min_value: found the parameter '$PARAM"),
    "no number": (kwargs(mostly=float("nan")), FIRST + "kwargs.mostly: found nan, expected a finite number"),
    "pattern": (kwargs(regex="(?<=a)b"), FIRST + "kwargs: found the pattern '(?<=a)b', expected a regular expression"),
    "condition as code": (
        where("@os.system('x')"),
        FIRST + "kwargs.row_condition: found \"@os.system('x')\", expected {",
    ),
    "condition of pandas": (
        where({"type": "pass_through", "pass_through_filter": "x"}),
        FIRST + "kwargs.row_condition: found a 'pass_through' with the keys type, pass_through_filter, expected {",
    ),
    "column of a condition": (
        where({"type": "or", "conditions": [comparison(), comparison(column={"name": "@x"})]}),
        FIRST + "kwargs.row_condition.conditions[1].column.name: found '@x', expected one of",
    ),
    "operator": (
        where(comparison(operator="or")),
        FIRST + "kwargs.row_condition.operator: found 'or', expected one of",
    ),
    "value": (
        where(comparison(parameter={"a": 1})),
        FIRST + "kwargs.row_condition.parameter: found a mapping, expected",
    ),
}


@law_over("name", REFUSED)
def test_a_wrong_suite_is_refused_by_suite_expectation_and_key(name, tmp_path):
    content, message = REFUSED[name]
    (fault,) = faults_of(content, tmp_path)
    assert fault.startswith(message)


def test_all_faults_of_a_file_are_reported_at_once(tmp_path):
    wrong = [NOT_NULL | {"kwargs": {"column": "odd", "regex": "("}}, {"type": 3}]
    assert (
        len(faults_of([suite(NOT_NULL, name="runs"), suite(wrong[0]), suite(wrong[1], name="verdicts")], tmp_path)) == 4
    )


def test_a_fifo_is_no_suite(tmp_path):
    os.mkfifo(tmp_path / "suite.json")
    with pytest.raises(ExpectationsError, match="neither a file nor a link to one"):
        read_quality_suites(tmp_path / "suite.json")


def test_what_great_expectations_writes_is_read(tmp_path):
    # ExpectationSuite.to_json_dict() of great-expectations 1.24.1
    condition = {"type": "and", "conditions": [comparison(), {"type": "nullity", "column": {"name": "checkpoint"}}]}
    condition["conditions"][1]["is_null"] = True
    written = NOT_NULL | {"kwargs": {"column": "output", "row_condition": condition}, "meta": {}, "severity": "warning"}
    whole = suite(written, name="outputs.x", id=None, notes=None, meta={"great_expectations_version": "1.24.1"})
    (tmp_path / "suite.json").write_text(json.dumps(whole), encoding="utf-8")
    (found,) = read_quality_suites(tmp_path / "suite.json")
    assert (found.table, found.columns) == ("outputs", ("output", "model", "checkpoint"))
