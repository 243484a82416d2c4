"""Comparison of a mart with its published rows: criteria of equality."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from gradebook.tasks.stages.rebuild import MartCheck, check_mart

COLUMNS = ("model", "checkpoint", "mean", "sd")


@pytest.fixture
def memory() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


Check = Any


@pytest.fixture
def check(memory: duckdb.DuckDBPyConnection, tmp_path: Path) -> Check:
    """Compare rows of run_scores with published ones: model, checkpoint, mean, sd as SQL literals."""

    def call(published: str, rebuilt: str, columns: tuple[str, ...] | None = COLUMNS) -> MartCheck:
        file = tmp_path / "published.parquet"
        rows = "select model, checkpoint, mean::double as mean, sd::double as sd from (values {}) as t({})"
        names = ", ".join(COLUMNS)
        memory.execute(f"copy ({rows.format(published, names)}) to '{file}'")
        memory.execute(f"create table run_scores as {rows.format(rebuilt, names)}")
        return check_mart(memory, "run_scores", file, columns)

    return call


@pytest.mark.parametrize("row", ["('m', null, 0.1, null)", "('m', 's', 'nan', -0.0)", "(null, null, 1e-320, 'inf')"])
def test_the_same_row_is_equal_for_any_values(check, row):
    assert check(row, row).is_equal


@pytest.mark.parametrize("mean", ["0.30000000000000004", "null", "'nan'"])
def test_one_bit_or_a_null_is_a_difference(check, mean):
    found = check("('m', null, 0.3, 0)", f"('m', null, {mean}, 0)")
    (difference,) = found.differences
    assert (difference.key, difference.published) == ({"model": "m", "checkpoint": None}, {"mean": "0.3"})
    assert difference.rebuilt == {"mean": None if mean == "null" else mean.strip("'")}


def test_a_zero_with_another_sign_is_a_difference(check):
    (difference,) = check("('m', null, 0.0, 0)", "('m', null, '-0.0', 0)").differences
    assert (difference.published, difference.rebuilt) == ({"mean": "0.0"}, {"mean": "-0.0"})


def test_the_order_of_rows_is_no_difference(check):
    assert check("('a', null, 1, 0), ('b', null, 1, 0)", "('b', null, 1, 0), ('a', null, 1, 0)").is_equal


def test_a_repeated_row_is_a_difference(check):
    found = check("('a', null, 1, 0)", "('a', null, 1, 0), ('a', null, 1, 0)")
    assert (found.differing_count, found.differences[0].published) == (1, None)


def test_a_row_that_is_missing_is_shown_by_its_key(check):
    found = check("('a', '1', 1, 0), ('a', '2', 1, 0)", "('a', '1', 1, 0)")
    assert [(each.key, each.rebuilt) for each in found.differences] == [({"model": "a", "checkpoint": "2"}, None)]


def test_a_column_added_since_is_new_and_not_compared(check):
    found = check("('m', null, 0.3, null)", "('m', null, 0.3, 0.1)", ("model", "checkpoint", "mean"))
    assert (found.is_equal, found.new_columns) == (True, ("sd",))


def test_a_column_filled_later_is_compared(check):
    assert not check("('m', null, 0.3, 0.2)", "('m', null, 0.3, 0.1)", ("model", "checkpoint", "mean")).is_equal


def test_a_mart_added_since_is_new_as_a_whole(memory, tmp_path):
    memory.execute("create table run_scores as select 'm' as model, 0.5::double as mean")
    memory.execute(f"copy (from run_scores limit 0) to '{tmp_path}/none.parquet'")
    found = check_mart(memory, "run_scores", tmp_path / "none.parquet", ())
    assert (found.is_equal, found.new_columns) == (True, ("model", "mean"))


def test_only_the_first_differing_rows_are_shown(check):
    published, rebuilt = (", ".join(f"('m{n}', null, {n}, {sd})" for n in range(9)) for sd in (0, 1))
    found = check(published, rebuilt)
    assert (found.differing_count, [each.key["model"] for each in found.differences]) == (
        18,
        [f"m{n}" for n in range(5)],
    )
