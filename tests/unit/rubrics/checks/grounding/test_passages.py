import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.grounding.passages import meanings_of, numbers_in
from gradebook.rubrics.checks.registry import find_check
from tests.support.law_over import law_over
from tests.support.nightly import nightly

CONTEXT = ["On Mondays, entry\r\nis free. He said “it’s all–right”.", "入场免费、周一开放。 การเข้าชมฟรี"]


def judge(name: str, output: str, context: list[str] | None, others: dict[str, str] | None = None, **settings: object):
    columns = {"output": [output], "context": pa.array([context], pa.list_(pa.string()))}
    for column in ("prompt", "reference"):
        columns[column] = pa.array([(others or {}).get(column)], pa.string())
    found = find_check(name).function(pa.table(columns), read_settings(find_check(name), settings))
    return found.is_passed[0].as_py(), found.evidence[0].as_py() or found.reasons[0].as_py()


@law_over(
    ("output", "expected"),
    [
        ('"entry is free"', (True, None)),
        ("“Entry IS\n free.”", (True, None)),
        ("«mondays, entry is»", (True, None)),
        ('"it\'s all-right"', (True, "no quotations")),
        ("he said \"it's all-right", (True, "no quotations")),
        ('"He said "it’s all-right""', (True, "no quotations")),
        ('"on mondays [...] is free!"', (True, None)),
        ('"on mondays ... is closed"', (False, "'on mondays ... is closed' is not in the context")),
        ('"entry is never free"', (False, "'entry is never free' is not in the context")),
        ("「周一开放」", (True, None)),
        ("「周二开放」", (False, "'周二开放' is not in the context")),
        ("“การเข้าชมฟรี”", (True, None)),
        ('他说"周二免费开放"。', (False, "'周二免费开放' is not in the context")),
        ('"[E]ntry is free [1]."', (True, None)),
        ('"[not in the context]"', (True, "no quotations")),
        ('"ondays, entry is free"', (False, "'ondays, entry is free' is not in the context")),
        ('"on mondays, ent ... ree"', (False, "'on mondays, ent ... ree' is not in the context")),
        ('"[...] is free. ..."', (True, "no quotations")),
        ('a 5" disk and a 3" disk of long ago', (True, "no quotations")),
        ('"entry\n\nis free now"', (True, "no quotations")),
        ('`print("entry is never free")`', (True, "no quotations")),
        ('"too short"', (True, "no quotations")),
        ("", (True, "no quotations")),
        (" \r\n", (True, "no quotations")),
        ('\x00"entry is free"\x00', (True, None)),
        ('😀 "free of charge e\u0301" ', (False, "'free of charge e\u0301' is not in the context")),
        ("„entry is free“ »entry is free«", (True, None)),
    ],
)
def test_quotations_are_looked_up_in_the_context(output, expected):
    assert judge("quotes_in_context", output, CONTEXT) == expected


def test_settings_of_quotations():
    said = '"Entry is free"'
    assert judge("quotes_in_context", said, CONTEXT, case_sensitive=True)[0] is False
    assert judge("quotes_in_context", "none", CONTEXT, require=True) == (False, "no quotations")
    assert judge("quotes_in_context", '"two words"', CONTEXT, min_words=2)[0] is False
    assert judge("quotes_in_context", said, None, {"prompt": "entry is free?"}, against=["prompt"]) == (True, None)
    assert judge("quotes_in_context", said, ["shut"], {"prompt": "x"}, against=["context", "prompt"]) == (
        False,
        "'Entry is free' is not in the context or prompt",
    )


@law_over(
    ("quotation", "is_there"),
    [
        ("able to cancel it", False),
        ("unable to cancel it", True),
        ("5 days after delivery", False),
        ("5 percent of it", False),
        ("costs 2 of them", False),
        ("costs 2.5 percent of it", True),
        ("무료로 입장할 수", True),
        ("able to pay", True),
    ],
)
def test_a_quotation_begins_and_ends_with_a_word(quotation, is_there):
    passage = "Unable to cancel it 15 days after delivery; costs 2.5 percent of it. 무료로 입장할 수있다. able to pay."
    assert judge("quotes_in_context", f"“{quotation}”", [passage])[0] is is_there


def test_many_parts_of_one_quotation_are_too_much_to_compare():
    parts = [f"a{index} b" for index in range(100_000)]
    output = f'"{" ... ".join(parts)}"'
    assert judge("quotes_in_context", output, [" ".join(parts)])[1].startswith("too long to compare: found ")


def test_a_quotation_does_not_run_over_two_passages():
    assert judge("quotes_in_context", '"is free on mondays"', ["entry is free", "on mondays"])[0] is False


@pytest.mark.parametrize("name", ["quotes_in_context", "numbers_in_context"])
def test_without_a_source_it_cannot_tell(name):
    assert judge(name, '"entry is free" 7', None) == (None, "no context")
    assert judge(name, "plain", None) == (None, "no context")
    assert judge(name, "plain 7", ["7"], against=["context", "prompt"]) == (None, "no context or no prompt")
    assert judge(name, '"entry is free" 7', [])[0] is False


def test_too_much_to_compare_is_not_judged():
    output = " ".join(f'"no {index} of many"' for index in range(40))
    assert judge("quotes_in_context", output, ["x" * 1_000_000])[1] == (
        "too long to compare: found 40000000 characters times parts of quotations, at most 30000000"
    )


@law_over(
    ("written", "meant"),
    [
        ("1,234", {"1234", "1.234"}),
        ("1.234", {"1234", "1.234"}),
        ("1,234.50", {"1234.5"}),
        ("1.234,50", {"1234.5"}),
        ("1 234,5", {"1234.5"}),
        ("1,23,456", {"123456"}),
        ("12 345 678", {"12345678"}),
        ("1'234", {"1234"}),
        (".5", {"0.5"}),
        ("007.50", {"7.5"}),
        ("0.0", {"0"}),
        ("3,5", {"3.5"}),
        ("5 million", {"5000000"}),
        ("2.5k", {"2500"}),
        ("1.5 million", {"1500000"}),
        ("\u0663\u066b\u0665", {"3.5"}),
        ("\uff11\uff12", {"12"}),
        ("1.2.3", {"1.2.3"}),
    ],
)
def test_what_a_number_may_mean(written, meant):
    assert numbers_in(written) == [written]
    assert meanings_of(written).values == meant


@law_over(
    ("output", "numbers"),
    [
        ("1. one\n2) two\n(3) three\n**4.** four\n> 5. five\n## Step 6: go", []),
        ("42.\n", ["42"]),
        ("a\n42. \r\n", ["42"]),
        ("1.5 litres\n6 eggs", ["1.5", "6"]),
        ("H2O v2 COVID-19 3rd 5km $7", ["19", "3", "5", "7"]),
        ("from 3-4, in 2025-05-03.", ["3", "4", "2025", "05", "03"]),
        ("约3个😀4\r\n", ["3", "4"]),
    ],
)
def test_where_numbers_stand(output, numbers):
    assert numbers_in(output) == numbers


@law_over(
    ("output", "expected"),
    [
        ("1,234 of them, 50% and .5", (True, None)),
        ("1234 [7] and [8, 9]", (True, None)),
        ("1. first\n2. second", (True, "no numbers")),
        ("5 million or 5,000,000", (True, None)),
        ("3 May, or 2025-05-03", (True, None)),
        ("12 345 and 12,345", (True, None)),
        ("`x = 99`", (True, "no numbers")),
        ("", (True, "no numbers")),
        ("1,243 and 51%", (False, "not in the context: 1,243, 51")),
        ("21 22 23 24 26 27 28", (False, "not in the context: 21, 22, 23, 24, 26 and 2 more")),
        ("٩٩", (False, "not in the context: ٩٩")),
        ("345", (False, "not in the context: 345")),
    ],
)
def test_numbers_are_looked_up_in_the_context(output, expected):
    passages = ["1234 in all, 50 %, a rate of 0.50;", "5000000 on May 3, 2025", "12 345"]
    # "345" is a part of 12 345, which may be two numbers; so it is held there alone
    passages = passages if output != "345" else ["12,345"]
    assert judge("numbers_in_context", output, passages) == expected


@law_over(
    ("output", "passage", "is_held"),
    [
        ("5 million", "5 million", True),
        ("5 million", "5,000 thousand", True),
        ("5 million", "in millions: 5", True),
        ("5", "5 million", True),
        ("5 million", "5 billion", False),
        ("5k", "5m", False),
        ("3.5 million", "3 and 5", False),
        ("5", "you may go", False),
        ("3/5", "3 May", True),
        ("5/3", "May 3rd", True),
        ("11", "2nd of November", True),
    ],
)
def test_scales_and_months_of_numbers(output, passage, is_held):
    assert judge("numbers_in_context", output, [passage])[0] is is_held


def test_settings_of_numbers():
    assert judge("numbers_in_context", "24 and 1.5", ["x"], allow=[24, "1.50"]) == (True, None)
    assert judge("numbers_in_context", "7", ["x"], {"prompt": "7?"}, against=["context", "prompt"]) == (True, None)


@pytest.mark.parametrize(
    "unit",
    [
        "1 ",
        *nightly(
            ['"', '"a b c" ', "“", "1", "1,", ".5", "1.2.", "12 345 ", "[1] ", "`", "\n", "« ", "1. ", '" "', "(1"]
        ),
    ],
)
@law_over("name", ["quotes_in_context", "numbers_in_context"])
def test_a_million_characters_are_judged(name, unit):
    output = unit * (1_000_000 // len(unit)) + '\n 77 "not in the context at all"'
    is_passed, _ = judge(name, output, ["1 12 345 a b c .5"])
    assert is_passed is False or unit in '"`"«“'


@law_over(
    ("name", "settings"),
    [
        ("quotes_in_context", {"against": []}),
        ("quotes_in_context", {"against": ["output"]}),
        ("quotes_in_context", {"min_words": 0}),
        ("numbers_in_context", {"allow": ["many"]}),
        ("numbers_in_context", {"allow": [True]}),
        ("numbers_in_context", {"allow": [float("nan")]}),
        ("numbers_in_context", {"allow": ["1 and 2"]}),
        ("numbers_in_context", {"against": "metadata"}),
    ],
)
def test_settings_that_cannot_hold_are_refused(name, settings):
    with pytest.raises(ValidationError):
        read_settings(find_check(name), settings)


@given(st.decimals(0, 10**9, places=2, allow_nan=False))
def test_a_number_is_held_however_it_is_written(value):
    for written in (f"{value:f}", f"{value:,}", f"{value:,}".translate(str.maketrans(",.", ".,"))):
        assert judge("numbers_in_context", f"x {written} y", [f"{value:f}"])[0] is True


@given(st.lists(st.text(alphabet='abc "', min_size=1, max_size=6), min_size=1), st.integers(0, 3))
def test_rows_together_are_judged_as_alone(outputs, index):
    rows = outputs * 5
    columns = {"output": rows, "context": [["a b c"]] * len(rows), "prompt": rows, "reference": rows}
    check = find_check("quotes_in_context")
    together = check.function(pa.table(columns), read_settings(check, {"min_words": 1})).evidence.to_pylist()
    place = min(index, len(rows) - 1)
    assert together[place] == judge("quotes_in_context", rows[place], ["a b c"], min_words=1)[1]
