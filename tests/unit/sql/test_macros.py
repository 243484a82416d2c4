"""Macros: exact sums, and nulls."""

import duckdb
import numpy as np
import pyarrow as pa
import pytest

GIVEN = ({"tone": {}}, {"o": {"tone": 1.0}})


def value_of(connection: duckdb.DuckDBPyConnection, expression: str) -> float | None:
    found: float | None = connection.execute(f"select {expression}").fetchall()[0][0]
    return found


def test_an_exact_sum_is_the_same_in_any_order(build):
    # In a plain sum, 1e10 absorbs the last digits of the thirds.
    connection = build(*GIVEN)
    ordered = "select exact_sum(x), exact_mean(x) from (select x from shuffled order by {})"
    connection.execute("create table shuffled as select i, if(i = 7, 1e10, i / 3) as x from range(1000) as t (i)")
    totals = {connection.execute(ordered.format(by)).fetchone() for by in ("x", "-x", "hash(i)")}
    assert len(totals) == 1


def test_the_exact_measures_equal_those_of_numpy(build):
    connection, rng = build(*GIVEN), np.random.default_rng(5)
    x, y = rng.random(50), rng.random(50)
    connection.register("pairs", pa.table({"x": x, "y": y}))
    found = connection.execute("select exact_mean(x), exact_sd(x), exact_corr(x, y) from pairs").fetchone()
    assert found == pytest.approx((x.mean(), x.std(ddof=1), np.corrcoef(x, y)[0, 1]), abs=1e-8)


def test_without_values_an_exact_measure_is_null(build):
    found = build(*GIVEN).execute("select exact_sum(x), exact_mean(x), exact_sd(x) from (select null::double as x)")
    assert found.fetchone() == (None, None, None)


def test_counted_values_give_the_same_measures_to_the_bit(build):
    connection = build(*GIVEN)
    connection.execute("create table scores as select (hash(i) % 7) / 6 as x from range(1000) as t (i)")
    one_by_one = connection.execute("select exact_mean(x), exact_sd(x) from scores").fetchone()
    counted = "select x, count(*) as n from scores group by x"
    found = connection.execute(f"select mean_of_counted(x, n), sd_of_counted(x, n, n) from ({counted})").fetchone()
    assert found == one_by_one


@pytest.mark.parametrize("x", [0.1, 1e6, -1e12, 1e-6])
def test_a_sum_of_any_size_is_right_to_the_last_digits(build, x):
    measures = f"exact_sum({x}::double), exact_mean({x}::double)"
    found = build(*GIVEN).execute(f"select {measures} from range(3)").fetchone()
    assert found == pytest.approx((3 * x, x), rel=1e-15)


@pytest.mark.parametrize(("given", "expected"), [("-0.5", 0.0), ("0.5", 0.5), ("1.5", 1.0), ("null", None)])
def test_clip_limits_to_the_scale_and_passes_null(build, given, expected):
    assert value_of(build(*GIVEN), f"clip({given})") == expected


@pytest.mark.parametrize(
    ("score", "expected"), [("0.7", False), ("0.6999999999", False), ("0.699999", True), ("null", None)]
)
def test_a_score_is_below_a_mark_by_more_than_float_error(build, score, expected):
    assert value_of(build(*GIVEN), f"is_below({score}::double, 0.7::double)") is expected
