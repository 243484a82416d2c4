"""Functions of `rubrics.statistics` that the models of `sql` call, because their quantiles are not in SQL."""

from contextlib import suppress

import duckdb
import numpy as np
import pyarrow as pa
from duckdb.func import ARROW, SPECIAL

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.score_intervals import score_ends
from gradebook.rubrics.statistics.weak_slices import shortfall_test


def add_functions(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the functions; those of an earlier build on this connection stay."""
    double = connection.sqltype("double")  # duckdb.sqltype opens a database of its own
    ends = connection.struct_type({"low": double, "high": double})
    test = connection.struct_type({"p": double, "standard_error": double})
    # DuckDB refuses a second function of a name; its list of all functions would take longer than a run's marts.
    with suppress(duckdb.NotImplementedException):
        connection.create_function("score_ends", _score_ends, [double] * 7, ends, type=ARROW, null_handling=SPECIAL)
        connection.create_function("shortfall_test", _shortfall_test, [double] * 6, test, type=ARROW)


def _score_ends(
    n: pa.Array, unit_count: pa.Array, mean: pa.Array, sd: pa.Array, error: pa.Array, df: pa.Array, level: pa.Array
) -> pa.Array:
    """{low, high} of `score_ends`, null where it is NaN."""
    *measures, levels = (_floats(column) for column in (n, unit_count, mean, sd, error, df, level))
    ends = score_ends(*measures, level=levels)
    return pa.StructArray.from_arrays([pa.array(end, from_pandas=True) for end in ends], ["low", "high"])


def _shortfall_test(
    n: pa.Array, rest_n: pa.Array, shortfall: pa.Array, sd: pa.Array, skewness: pa.Array, inflation: pa.Array
) -> pa.Array:
    """{p, standard_error} of `shortfall_test`; no argument is null."""
    found = shortfall_test(*(_floats(column) for column in (n, rest_n, shortfall, sd, skewness, inflation)))
    return pa.StructArray.from_arrays([pa.array(each) for each in found], ["p", "standard_error"])


def _floats(column: pa.Array) -> Floats:
    """Column as an array, NaN for null."""
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
