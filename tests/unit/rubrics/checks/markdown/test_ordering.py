from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import CheckVerdicts, read_settings
from gradebook.rubrics.checks.registry import find_check
from tests.support.law_over import law_over
from tests.support.nightly import nightly

PRICES = "| Item | Price |\n|---|---|\n| Tea | $9 |\n| Cake | $1,200.50 |"


def judge(output: str, **given: Any) -> tuple[bool | None, str | None, str | None]:
    check = find_check("is_sorted")
    found: CheckVerdicts = check.function(pa.table({"output": [output]}), read_settings(check, given))
    assert found.reasons is not None
    return found.is_passed[0].as_py(), found.evidence[0].as_py(), found.reasons[0].as_py()


@law_over(
    ("output", "is_passed"),
    [
        ("- a\n- B\n- c", True),
        ("- b\n- a", False),
        ("- b\n  - z\n  - c\n- c", True),  # nested items are left out
        ("- b\n  goes on\n- a", False),
        ("1. b\n\ntext\n\n2. a", False),  # 2. goes on with the list
        ("1. b\n\ntext\n\n1. a", True),
        ("- b\n\nCons\n- a", True),
        ("- **a**\n- `b`\n- _c_", True),
        ("- [ ] b\n- [x] c", True),
        ("- a", True),
        ("- É\n- f", False),
        ("- 中\n- 文\n- 😀", True),
        ("- א\r\n- ב\r\n", True),
        ("```\n- b\n- a\n```\n- c", True),
        ("- \x00\n- a", True),
    ],
)
def test_the_items_of_each_list_are_compared(output, is_passed):
    assert judge(output, source="list")[0] is is_passed


@law_over(
    ("output", "is_passed"),
    [
        ("1\n10\n9", False),
        ("-5\n−3\n2", True),
        ("$1,200\n€1,300.5\n1e4", True),
        ("3-5\nA-4\n40 %", True),
        ("(-2)\n-1 x\nx 0", True),
        ("x", None),
        ("2\nx\n1", None),
        ("2\n1\nx", False),
        ("1" * 300, None),
        ("٣", None),
    ],
)
def test_numbers_are_the_first_in_each_line(output, is_passed):
    assert judge(output, source="lines", **{"as": "number"})[0] is is_passed


@pytest.mark.parametrize(
    ("output", "is_passed"),
    [
        ("2024-01-02\n2024-01-10 10:00\n2024-01-10T10:01:30", True),
        ("on 2024-02-01: x\nby 2023-12-31: y", False),
        ("2024-13-02", None),
        ("12024-01-021", None),
        ("2 January 2024", None),
    ],
)
def test_dates_are_iso(output, is_passed):
    assert judge(output, source="lines", **{"as": "date"})[0] is is_passed


@law_over(
    ("given", "expected"),
    [
        ({}, (False, "row 1 'Tea' stands before 'Cake', expected ascending order", None)),
        ({"order": "descending"}, (True, None, None)),
        ({"column": "price", "as": "number"}, (True, None, None)),
        (
            {"column": 2, "as": "number", "order": "descending"},
            (False, "row 1 '$9' stands before '$1,200.50', expected descending order", None),
        ),
        ({"column": "Cost"}, (None, None, "no column 'Cost' found")),
        ({"column": 3}, (None, None, "no column 3 found")),
        ({"column": "PRICE", "case_sensitive": True}, (None, None, "no column 'PRICE' found")),
        ({"column": "Item", "as": "number"}, (None, None, "found 'Tea', expected a number")),
    ],
)
def test_a_table_is_sorted_by_a_column(given, expected):
    assert judge(PRICES, source="table", **given) == expected


@pytest.mark.parametrize(
    ("source", "output", "reason"),
    [
        ("lines", " \r\n\n", "no lines found"),
        ("lines", "```\n```", "no lines found"),
        ("list", "a\nb", "no list found"),
        ("table", "", "no table found"),
        ("table", "a|b\n-|-", "no rows found"),
    ],
)
def test_an_output_with_nothing_to_sort_is_unscored(source, output, reason):
    assert judge(output, source=source) == (None, None, reason)


def test_lines_within_a_fence_are_sorted_too():
    assert judge("```\na\nb\n```", source="lines")[0] is True
    assert judge("```\nb\na\r\n```", source="lines")[1] == "line 1 'b' stands before 'a', expected ascending order"


def test_equal_values_fail_only_if_strict():
    assert judge("a\nA", source="lines")[0] is True
    assert judge("a\nA", source="lines", is_strict=True)[0] is False
    assert judge("a\nA", source="lines", case_sensitive=True)[0] is False


def test_accents_can_be_folded():
    assert judge("- É\n- f", source="list", fold="accents")[0] is True


def test_a_short_row_has_an_empty_cell():
    assert judge("|a|b|\n|-|-|\n|1|\n|0|x|", source="table", column="b")[0] is True


def test_each_output_is_sorted_for_itself():
    check = find_check("is_sorted")
    shard = pa.table({"output": ["- b", "- a\n- c", "- b\n- a", "", "2. a"]})
    found = check.function(shard, read_settings(check, {"source": "list"}))
    assert found.is_passed.to_pylist() == [True, True, False, None, True]


@given(
    st.lists(st.integers(-50, 50), min_size=1, max_size=8), st.sampled_from(["ascending", "descending"]), st.booleans()
)
def test_numbers_agree_with_a_plain_comparison(numbers, order, is_strict):
    turned = numbers if order == "ascending" else numbers[::-1]
    expected = all(low < high or (low == high and not is_strict) for low, high in pairwise(turned))
    output = "\n".join(f"- {number}" for number in numbers)
    assert judge(output, source="list", order=order, is_strict=is_strict, **{"as": "number"})[0] is expected


@given(st.lists(st.text(alphabet="abé中", min_size=1, max_size=3), min_size=1, max_size=6))
def test_sorted_texts_are_sorted(texts):
    assert judge("\n".join(sorted(texts)), source="lines", case_sensitive=True)[0] is True


@pytest.mark.parametrize(
    "given", [{"source": "lines", "as": "number"}, {"source": "table"}, {"source": "list"}], ids=str
)
@pytest.mark.parametrize("sign", ["a|b\n-|-\n", *nightly(["1", "- ", " ", "\n", "|", "`", "> "])])
def test_a_megabyte_of_signs_is_read(given, sign):
    is_passed, evidence, reason = judge(sign * (1_000_000 // len(sign)), **given)
    assert (is_passed is None) == (reason is not None)
    assert (is_passed is False) == (evidence is not None)


def test_a_hundred_thousand_numbers_in_order_are_sorted():
    assert judge("\n".join(map(str, range(100_000))), source="lines", **{"as": "number"})[0] is True


@law_over(
    "given",
    [
        {},
        {"source": "rows"},
        {"source": "list", "column": 1},
        {"source": "table", "column": 0},
        {"source": "table", "column": True},
        {"source": "table", "column": ""},
        {"source": "lines", "as": "number", "fold": "accents"},
        {"source": "lines", "as_": "number"},
    ],
)
def test_settings_that_do_not_fit_together_are_refused(given):
    with pytest.raises(ValidationError):
        read_settings(find_check("is_sorted"), given)


@pytest.mark.parametrize(("kind", "output"), [("number", "1\n2.5"), ("date", "2024-01-02\n2024-01-02 10:00")])
def test_large_strings_are_read_too(kind, output):
    check = find_check("is_sorted")
    shard = pa.table({"output": pa.array([output], pa.large_string())})
    found = check.function(shard, read_settings(check, {"source": "lines", "as": kind}))
    assert found.is_passed.to_pylist() == [True]


@law_over(
    ("output", "is_passed"),
    [
        ("12,3456\n13", True),  # 12, not 12345
        ("12,34\n12,56\n13", True),
        ("1,234,56\n2", True),
        ("12,345\n13", False),
        ("1,234,567\n1,234,568", True),
        ("1e99\n2", False),
    ],
)
def test_a_comma_belongs_to_a_number_only_between_thousands(output, is_passed):
    assert judge(output, source="lines", **{"as": "number"})[0] is is_passed


def test_a_number_with_an_exponent_of_three_digits_is_not_read():
    expected = (None, None, "found '1e100', expected a number")
    assert judge("1e100\n2", source="lines", **{"as": "number"}) == expected
