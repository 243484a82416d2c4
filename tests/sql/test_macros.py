"""The macros: Student's t without scipy, and what they do with nulls."""

import duckdb
import numpy as np
import pytest
from scipy import stats

GIVEN = ({"tone": {}}, {"o": {"tone": 1.0}})


def value_of(connection: duckdb.DuckDBPyConnection, expression: str) -> float | None:
    found: float | None = connection.execute(f"select {expression}").fetchall()[0][0]
    return found


def test_the_t_quantile_agrees_with_scipy_up_to_ten_thousand_degrees(build):
    found = (
        build(*GIVEN).execute("select student_t_975(df) from range(1, 10001) as degrees (df) order by df").fetchnumpy()
    )
    quantiles = next(iter(found.values()))
    assert np.asarray(quantiles, dtype=float) == pytest.approx(stats.t.ppf(0.975, np.arange(1, 10001)), rel=1e-6)


@pytest.mark.parametrize("df", [0, -1, "null"])
def test_there_is_no_t_quantile_below_one_degree(build, df):
    assert value_of(build(*GIVEN), f"student_t_975({df})") is None


def test_the_t_quantile_of_very_many_degrees_is_the_normal_one(build):
    assert value_of(build(*GIVEN), "student_t_975(10 ** 9)") == pytest.approx(stats.norm.ppf(0.975), rel=1e-8)


def test_the_margin_is_the_quantile_times_the_standard_error(build):
    # 4.3026527 x 0.2 / sqrt(3) = 0.4968275
    assert value_of(build(*GIVEN), "t_margin(0.2, 3)") == pytest.approx(0.4968275, abs=1e-7)


@pytest.mark.parametrize("n", [0, 1])
def test_there_is_no_margin_under_two_values(build, n):
    assert value_of(build(*GIVEN), f"t_margin(0.2, {n})") is None


@pytest.mark.parametrize(("given", "expected"), [("-0.5", 0.0), ("0.5", 0.5), ("1.5", 1.0), ("null", None)])
def test_clip_holds_to_the_scale_and_keeps_null(build, given, expected):
    assert value_of(build(*GIVEN), f"clip({given})") == expected


@pytest.mark.parametrize(
    ("score", "expected"), [("0.7", False), ("0.6999999999", False), ("0.699999", True), ("null", None)]
)
def test_a_score_is_below_a_mark_by_more_than_float_error(build, score, expected):
    assert value_of(build(*GIVEN), f"is_below({score}::double, 0.7::double)") is expected
