import json
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.dialogue import any_phrase
from gradebook.rubrics.checks.registry import find_check
from tests.support.law_over import law_over
from tests.support.nightly import nightly

BOOKED = "Your table is booked."
NO_CALL = "claims 'booked', no call of 'book_table' in metadata"
NOT_WELL = "claims 'booked', the call of book_table did not go well"
CALLED = "claims 'booked', book_table was called"


def judge(output: str, metadata: object = None, **settings: object) -> tuple[bool | None, str | None]:
    check = find_check("claim_needs_tool")
    text = metadata if metadata is None or isinstance(metadata, str) else json.dumps(metadata)
    shard = pa.table({"output": [output], "metadata": pa.array([text], pa.string())})
    read = read_settings(check, {"claims": ["booked", "all set"], "tools": ["book_table"]} | settings)
    found = check.function(shard, read)
    return found.is_passed[0].as_py(), found.evidence[0].as_py()


def calls(*entries: object) -> dict[str, object]:
    return {"tool_calls": list(entries)}


@law_over(
    ("metadata", "expected"),
    [
        (calls({"function": {"name": "book_table", "arguments": "{}"}}), (True, CALLED)),
        (calls({"name": "book_table"}), (True, CALLED)),
        (calls({"tool": "book_table"}, {"name": "other"}), (True, CALLED)),
        (calls("book_table"), (True, CALLED)),
        ({"tool_calls": {"name": "book_table"}}, (True, CALLED)),
        (calls({"name": "book_table", "status": "success", "error": None}), (True, CALLED)),
        (calls({"name": "book_table", "status": 200, "ok": True, "result": {"id": 1}}), (True, CALLED)),
        (calls({"name": "book_table", "status": "error"}, {"name": "book_table", "status": "OK"}), (True, CALLED)),
        (calls({"name": "book_table", "status": "error"}), (False, NOT_WELL)),
        (calls({"name": "book_table", "status": "pending"}), (False, NOT_WELL)),
        (calls({"name": "book_table", "error": "full"}), (False, NOT_WELL)),
        (calls({"name": "book_table", "ok": False}), (False, NOT_WELL)),
        (calls({"name": "book_table", "result": {"success": False}}), (False, NOT_WELL)),
        (calls({"name": "book_table", "is_error": True}), (False, NOT_WELL)),
        (calls({"name": "book_table", "isError": True}), (False, NOT_WELL)),
        (calls({"name": "book_table", "errors": ["full"]}), (False, NOT_WELL)),
        (calls({"name": "book_table", "success": "false"}), (False, NOT_WELL)),
        (calls({"name": "book_table", "status_code": 500}), (False, NOT_WELL)),
        (calls({"name": "book_table", "output": '{"error": "full"}'}), (False, NOT_WELL)),
        (calls({"name": "book_table", "content": {"status": "failed"}}), (False, NOT_WELL)),
        (calls({"name": "book_table", "status": 201, "content": '{"ok": true'}), (True, CALLED)),
        (calls({"name": "book_table", "status": "200 OK", "result": {"status": "Confirmed"}}), (True, CALLED)),
        (calls({"name": "Book_table"}), (False, NO_CALL)),
        (calls(), (False, NO_CALL)),
        ({}, (False, NO_CALL)),
        (None, (False, "claims 'booked', no metadata")),
    ],
)
def test_a_claim_needs_a_call_that_went_well(metadata, expected):
    assert judge(BOOKED, metadata) == expected


@law_over(
    "metadata",
    [
        "null", "[]", "3", '"tool_calls"', "", "{", "[" * 100_000, '{"tool_calls": null}',
        '{"tool_calls": [null, 3, [], [[]]]}',
        '{"tool_calls": [{"name": {"name": {}}}, {"function": []}]}', '{"tool_calls": {"tool_calls": "x"}}',
        '{"a": NaN}',
        '{"tool_calls": [{"name": "book_table", "status": {"a": [1]}}]}',
        '{"tool_calls": ' + "[" * 150 + "]" * 150 + "}",
    ],
)  # fmt: skip
def test_odd_metadata_shows_nothing(metadata):
    assert judge(BOOKED, metadata)[0] is False


@law_over(
    ("output", "is_claim"),
    [
        ("BOOKED!", True),
        ("You're all set", True),
        ("overbooked, booked_x, rebooked", False),
        ("It is not booked.", False),
        ("Nothing was booked, neither booked nor paid.", False),
        ("It has not yet been booked.", False),
        ("It hasn't been booked, it couldn’t get booked.", False),
        ("I was unable to get it booked.", False),
        ("No problem, it is booked.", True),
        ("Not only booked but paid.", True),
        ("I have no doubt it is booked.", True),
        ("Don’t worry it is booked.", True),
        ("Smoking: no\nYour table is booked.", True),
        ("It is not yet\r\nbooked.", True),
        ("You’re all  set", True),
        ("You’re all\u00a0set", True),
        ("You’re all\u3000set", True),
        ("you are all\nset", True),
        ("It is not booked. Now it is booked.", True),
        ("nothing here", False),
        ("", False),
        (" \r\n", False),
        ("\x00booked\x00", True),
        ("שלום booked 😀", True),
    ],
)
def test_what_is_a_claim(output, is_claim):
    assert judge(output, calls())[0] is not is_claim
    assert is_claim or judge(output) == (True, "no claim")


def test_settings_of_claims():
    assert judge("已预订完成", claims=["预订"], whole_word=False)[0] is False
    assert judge("已预订完成", claims=["预订"])[0] is True
    assert judge("Booked", case_sensitive=True)[0] is True
    assert judge("not booked", negations=[])[0] is False
    assert judge("nicht booked", negations=["nicht"])[0] is True
    assert judge("You’re in", claims=["you're in"])[0] is False
    assert judge(BOOKED, calls({"name": "book_table", "status": "queued"}), successes=["Queued"])[0] is True


def test_the_place_of_the_calls_is_a_path_through_lists():
    messages = {"messages": [{"role": "user"}, {"tool_calls": [{"function": {"name": "book_table"}}]}]}
    assert judge(BOOKED, messages, where="messages.tool_calls") == (True, CALLED)
    assert judge(BOOKED, messages)[0] is False


@pytest.mark.parametrize(
    "unit", ["\n", *nightly(["booked ", "not booked ", "not ", "not a b c d booked ", "n't ", "b", " "])]
)
def test_a_million_characters_are_judged(unit):
    assert judge(unit * (1_000_000 // len(unit)) + ". booked", calls())[0] is False


@law_over(
    "settings",
    [
        {"claims": []},
        {"tools": []},
        {"claims": [""]},
        {"where": ""},
        {"where": "a..b"},
        {"negations": [""]},
        {"negations": [" "]},
        {"claims": [" "]},
        {"tool": "x"},
    ],
)
def test_settings_that_cannot_hold_are_refused(settings):
    with pytest.raises(ValidationError):
        read_settings(find_check("claim_needs_tool"), {"claims": ["booked"], "tools": ["x"]} | settings)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["book_table", "error", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "function", "status", "ok", "error", "result"]), inner, max_size=3)
    ),
)


@given(JSON)
def test_no_metadata_crashes(value):
    is_passed, evidence = judge(BOOKED, {"tool_calls": value})
    assert is_passed is (evidence == CALLED)


def test_many_claims_are_each_found_as_they_are_alone():
    claims = [
        "book",
        "booked",
        "booked in",
        "don't fret",
        "[done]",
        "re-booked",
        "\u0130st",
        *(f"a{place}" for place in range(40)),
    ]
    texts = [f"so {claim} now" for claim in claims]
    pattern = re.compile(any_phrase(claims, case_sensitive=False), re.IGNORECASE)
    assert [pattern.search(text)[0] for text in texts] == claims


def test_claims_that_each_begin_with_the_one_before_are_told_apart():
    claims = ["a" * length for length in range(1, 300)]
    pattern = re.compile(rf"\b{any_phrase(claims, case_sensitive=True)}\b")
    assert [pattern.search(f"- {claim}.")[0] for claim in claims] == claims
