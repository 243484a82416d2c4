import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.registry import find_check
from tests.support.checked import judge
from tests.support.law_over import law_over

PRICES = "| Item | **Price** |\n|---|---:|\n| Tea | 2 |\n| Cake | 3 |"


@law_over(
    ("output", "column_count", "row_count"),
    [
        (PRICES, 2, 2),
        (PRICES + "\nfoo\n\nbar", 2, 3),
        (PRICES + "\n---\nfoo", 2, 2),
        (PRICES + "\n# foo | bar", 2, 2),
        ("a|b\n-|-", 2, 0),
        ("a\n|-|", 1, 0),
        ("x\na|b\r\n:-:|--\r\n1|2\r\n", 2, 1),
        ("a|b\n-|-\n-|-\n-|-", 2, 2),
        ("||\n|-|", 1, 0),
        ("a \\| b\n|--|\n", 1, 0),
        ("|\u4e2d|\u05e9|\U0001f600|\n|-|-|-|\n|\x00|||", 3, 1),
    ],
)
def test_a_table_has_so_many_columns_and_rows(output, column_count, row_count):
    columns, rows = (
        {f"min_{unit}": n, f"max_{unit}": n} for unit, n in (("columns", column_count), ("rows", row_count))
    )
    assert judge("has_table", output, **columns, **rows) == (True, None)


@law_over(
    "output",
    [
        "",
        " \n",
        "a\n-",
        "a|b\n-|-|-",
        "# a|b\n-|-",
        "-|-",
        "a \\| b\n--|--",
        f"```\n{PRICES}\n```",
        "a|b\n\n-|-",
        "| a |\n---",
        "<table></table>",
    ],
)
def test_what_is_no_table(output):
    assert judge("has_table", output) == (False, "found no table")


@law_over(
    ("given", "fault"),
    [
        ({"columns": ["price", "Item"]}, None),
        ({"columns": ["*Price*"], "case_sensitive": True}, None),
        ({"columns": ["price"], "case_sensitive": True}, "missing the column 'price'"),
        ({"columns": ["Item", "Qty"]}, "missing the column 'Qty'"),
        ({"min_rows": 3}, "2 rows, at least 3 required"),
        ({"max_rows": 1}, "2 rows, at most 1 allowed"),
        ({"min_columns": 3}, "2 columns, at least 3 required"),
        ({"max_columns": 1}, "2 columns, at most 1 allowed"),
    ],
)
def test_the_evidence_is_what_the_first_table_lacks(given, fault):
    expected = (True, None) if fault is None else (False, f"the first table: {fault}")
    assert judge("has_table", PRICES, **given) == expected


def test_one_table_that_fits_is_enough():
    assert judge("has_table", f"a|b\n-|-\n\n{PRICES}", columns=["item"], min_rows=2) == (True, None)


def test_each_output_has_its_own_tables():
    check = find_check("has_table")
    shard = pa.table({"output": ["a|b\n-|-", "-|-\n1|2", "a|b", PRICES]})
    assert check.function(shard, read_settings(check, {})).is_passed.to_pylist() == [True, False, False, True]


@given(st.lists(st.lists(st.sampled_from(["a", "", "b c", "\\|", "`x`"]), min_size=2, max_size=2), max_size=5))
def test_rows_of_a_table_as_written_are_counted(rows):
    output = "\n".join(["| x | y |", "|---|---|", *(f"| {' | '.join(row)} |" for row in rows)])
    assert judge("has_table", output, min_rows=len(rows), max_rows=len(rows), max_columns=2)[0]


@law_over("sign", ["|", "|\n", "-|-\n", "a|b\n-|-\n", "-", "- ", "\\|", "a|", "\n", " "])
def test_a_megabyte_of_pipes_has_no_column_of_that_name(sign):
    assert judge("has_table", sign * (1_000_000 // len(sign)), columns=["Price"])[0] is False


@law_over(
    "given",
    [
        {"min_rows": 2, "max_rows": 1},
        {"min_columns": 2, "max_columns": 1},
        {"columns": ["a", "b"], "max_columns": 1},
        {"columns": []},
        {"min_rows": -1},
        {"rows": 1},
    ],
)
def test_settings_of_tables_that_make_no_sense_are_refused(given):
    with pytest.raises(ValidationError):
        read_settings(find_check("has_table"), given)
