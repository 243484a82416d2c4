"""The intervals on the means of a points rubric: its scores are skewed and unbounded, so clusters are drawn again.

See `rubrics.statistics.bootstrap`; the draws are seeded, and the scores sorted, so that they come out the same.
"""

from collections.abc import Iterator

import duckdb
import pyarrow as pa

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
_HAS_PENALTIES = """
select coalesce(bool_or(weight < 0), false)
from (select weight from int_criteria union all select weight from int_own_criteria)
"""
_SCORES = """
with scores as (
    select 'run' as scope, '' as scope_id, model, checkpoint, output_number, score,
    from output_scores
    inner join (select output_id, output_number from int_outputs) using (output_id)
    union all by name
    select 'category' as scope, category as scope_id, model, checkpoint, output_number, score,
    from int_category_scores
    inner join int_groups using (group_number)
)

select
    scores.scope,
    scores.scope_id,
    scores.model,
    scores.checkpoint,
    list(scores.score order by outputs.cluster_number, scores.score) as scores,
    list(outputs.cluster_number order by outputs.cluster_number) as clusters,
from scores
inner join (
    select output_number, dense_rank() over (order by cluster_of(cluster, case_id)) as cluster_number from int_outputs
) as outputs
    on scores.output_number = outputs.output_number
where scores.score is not null
group by scores.scope, scores.scope_id, scores.model, scores.checkpoint
"""


def add_points_intervals(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the source of stg_points_intervals, over output_scores and int_category_scores; empty without penalties."""
    connection.register("measured_points", pa.Table.from_pylist(list(_intervals(connection)), POINTS_INTERVAL_SCHEMA))
    connection.execute("create or replace table source_points_intervals as from measured_points")
    connection.unregister("measured_points")


def _intervals(connection: duckdb.DuckDBPyConnection) -> Iterator[dict[str, object]]:
    ((has_penalties,),) = connection.execute(_HAS_PENALTIES).fetchall()
    if not has_penalties:
        return
    from rubrics.statistics.bootstrap import bootstrap_means, percentile_interval
    from rubrics.statistics.intervals import SCORES

    found = connection.execute(_SCORES).to_arrow_table()
    names = found.select(["scope", "scope_id", "model", "checkpoint"]).to_pylist()
    for name, scores, clusters in zip(names, found.column("scores"), found.column("clusters"), strict=True):
        means = bootstrap_means(scores.values.to_numpy(), clusters=clusters.values.to_numpy())
        ends = percentile_interval(means).clipped(SCORES)
        if ends.is_known:
            yield {**name, "ci_low": ends.low, "ci_high": ends.high}
