"""Bootstrap intervals for the means of a points rubric, whose scores are skewed and unbounded.

Clusters are resampled, see `rubrics.statistics.bootstrap`. Draws are seeded and scores sorted, so results are
reproducible.
"""

from collections.abc import Iterator

import duckdb
import pyarrow as pa

from gradebook.tasks.lake.sql import query

POINTS_INTERVAL_SCHEMA = pa.schema(
    [
        pa.field("scope", pa.string()),  # run | category
        pa.field("scope_id", pa.string()),
        pa.field("model", pa.string()),
        pa.field("checkpoint", pa.string()),
        pa.field("ci_low", pa.float64()),
        pa.field("ci_high", pa.float64()),
    ]
)
# For larger groups t intervals are as good, and draws take minutes.
MOST_OUTPUTS = 20_000


def add_points_intervals(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the source of stg_points_intervals from int_scores_unioned; empty without penalties."""
    connection.register("measured_points", pa.Table.from_pylist(list(_intervals(connection)), POINTS_INTERVAL_SCHEMA))
    connection.execute("create or replace table source_points_intervals as from measured_points")
    connection.unregister("measured_points")


def _intervals(connection: duckdb.DuckDBPyConnection) -> Iterator[dict[str, object]]:
    if not connection.execute("select 1 from int_criteria_weighted where weight < 0 limit 1").fetchall():
        return
    from gradebook.rubrics.statistics.bootstrap import bootstrap_means, percentile_interval
    from gradebook.rubrics.statistics.intervals import SCORES

    groups = connection.execute(query("marts/points_groups"), {"most_count": MOST_OUTPUTS})
    for group in groups.fetchall():
        named = dict(zip(("scope", "scope_id", "model", "checkpoint"), group, strict=True))
        found = connection.execute(query("marts/group_points"), named).fetchnumpy()
        ends = percentile_interval(bootstrap_means(found["score"], clusters=found["cluster_number"]))
        # The mean of a category is shown unclipped, the mean of a run clipped to 0..1.
        shown = ends.clipped(SCORES) if named["scope"] == "run" else ends
        if shown.is_known:
            yield {**named, "ci_low": shown.low, "ci_high": shown.high}
