"""Checks of steps over a shard of several outputs: each is judged by its own steps alone."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.registry import find_check
from gradebook.rubrics.checks.steps import NO_STEPS
from gradebook.rubrics.model.steps import Step, steps_array
from tests.support.law_over import law_over

ASK, SAY = Step("user", output="Book it."), Step("model", output="Done.", tokens=5, cost_usd=0.5)
LOOK, BOOK = Step("tool", "look", '{"room": 1}', "free"), Step("tool", "book", '{"room": 1}', "booked")
FAILED = Step("tool", "book", '{"room": "one"}', error="no number", latency_ms=9.0)
READ = Step("retrieval", "look", None, "page 3")
RUNS = (None, (), (ASK, SAY), (ASK, LOOK, BOOK, SAY), (LOOK, FAILED, BOOK, LOOK, SAY), (ASK, READ, SAY, FAILED))
ROOM = {"properties": {"room": {"type": "integer"}}, "required": ["room"]}


def judge(check: str, settings: dict[str, Any], *runs: tuple[Step, ...] | None) -> pa.Table:
    found = find_check(check)
    verdicts = found.function(pa.table({"steps": steps_array(runs)}), read_settings(found, settings))
    nothing = pa.nulls(len(runs), pa.string())
    reasons = nothing if verdicts.reasons is None else verdicts.reasons
    return pa.table({"is_passed": verdicts.is_passed, "evidence": verdicts.evidence, "reason": reasons})


@law_over(
    ("check", "settings", "expected"),
    [
        ("tool_called", {"tools": ["look"]}, [None, False, False, True, True, True]),
        ("tool_called", {"tools": ["look", "book"], "min": 2}, [None, False, False, True, True, True]),
        ("tool_called", {"tools": ["book"], "only_successful": True}, [None, False, False, True, True, False]),
        ("tool_called", {"tools": ["look"], "max": 1}, [None, True, True, True, False, True]),
        ("tools_in_order", {"tools": ["look", "book"]}, [None, False, False, True, True, True]),
        ("tools_in_order", {"tools": ["look", "book"], "exactly": True}, [None, False, False, True, False, True]),
        ("tools_in_order", {"tools": ["book", "look"]}, [None, False, False, False, True, False]),
        ("tool_arguments", {"tool": "book", "schema": ROOM}, [None, True, True, True, False, False]),
        ("tool_arguments", {"tool": "look", "schema": ROOM}, [None, True, True, True, True, False]),
        ("repeated_calls", {"max": 0}, [None, True, True, True, False, True]),
        ("count_steps", {"max": 3}, [None, True, True, False, False, False]),
        ("count_steps", {"kinds": ["tool"], "min": 2}, [None, False, False, True, True, False]),
        ("count_steps", {"only_errors": True, "max": 0}, [None, True, True, True, False, False]),
        ("step_total", {"measure": "tokens", "max": 5}, [None, None, True, True, True, True]),
        ("step_total", {"measure": "latency_ms", "max": 8}, [None, None, None, None, False, False]),
        ("errors_recovered", {}, [None, True, True, True, True, False]),
        ("answer_last", {}, [None, None, True, True, True, False]),
    ],
)
def test_each_output_is_judged_by_its_own_steps(check, settings, expected):
    together = judge(check, settings, *RUNS)
    assert together.column("is_passed").to_pylist() == expected
    assert pa.concat_tables(judge(check, settings, run) for run in RUNS).to_pylist() == together.to_pylist()
    assert together.column("reason")[0].as_py() == NO_STEPS


@law_over(
    ("check", "settings", "evidence"),
    [
        ("tool_called", {"tools": ["book"], "max": 1}, "2 calls of 'book', at most 1 allowed"),
        ("tools_in_order", {"tools": ["book", "pay"]}, "no call of pay after book"),
        ("tool_arguments", {"tool": "book", "schema": ROOM}, "book: $.room: 'one' is not of type 'integer'"),
        ("repeated_calls", {"max": 0}, "1 repeated call, at most 0 allowed"),
        ("count_steps", {"max": 4}, "5 steps, at most 4 allowed"),
        ("step_total", {"measure": "cost_usd", "max": 0.2}, "cost in dollars 0.5, at most 0.2 allowed"),
    ],
)
def test_a_failure_says_what_was_found(check, settings, evidence):
    assert judge(check, settings, (LOOK, FAILED, BOOK, LOOK, SAY)).column("evidence")[0].as_py() == evidence


def test_the_first_fault_of_the_end_is_named():
    runs = (SAY, ASK, LOOK), (SAY, FAILED), (FAILED, LOOK)
    assert judge("answer_last", {}, *runs).column("evidence").to_pylist() == [
        "a user's message has no reply",
        "book was called after the last message",
        None,
    ]
    assert judge("errors_recovered", {}, *runs).column("evidence").to_pylist() == [
        None,
        *["the last call of book ended in an error"] * 2,
    ]


@given(st.lists(st.lists(st.sampled_from([LOOK, BOOK, FAILED, READ, SAY]), max_size=6).map(tuple), max_size=4))
def test_repeats_are_counted_as_one_counts_them_by_hand(runs):
    calls = [[(step.name, step.input) for step in run if step.kind != "model"] for run in runs]
    expected = [len(each) == len({*each}) for each in calls]
    assert judge("repeated_calls", {"max": 0}, *runs).column("is_passed").to_pylist() == expected


@pytest.mark.parametrize("name", ["a" * 9_000, "\x1b[31m<b>", "é\0"])
def test_a_hostile_name_of_a_tool_is_cut_and_counted(name):
    run = (SAY, Step("tool", name, error="no"))
    for check in ("errors_recovered", "answer_last"):
        assert len(judge(check, {}, run).column("evidence")[0].as_py()) < 500
    assert judge("tool_called", {"tools": [name]}, run).column("is_passed").to_pylist() == [True]
