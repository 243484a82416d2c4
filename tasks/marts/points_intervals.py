"""Bootstrap intervals for the means of a points rubric, whose scores are skewed and unbounded.

Clusters are resampled, see `rubrics.statistics.bootstrap`. Draws are seeded and scores sorted, so results are
reproducible.
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
from int_criteria_weighted
"""
_SCORES = """
create or replace temp view points_scores as
select scope, scope_id, groups.model, groups.checkpoint, output_number, score,
from int_scores_unioned
inner join int_groups_counted as groups using (group_number)
where score is not null
"""
_GROUPS = """
select scope, scope_id, model, checkpoint
from points_scores
group by scope, scope_id, model, checkpoint
having count(*) between 2 and ?
order by scope, scope_id, model, checkpoint
"""
_OF_GROUP = """
select dense_rank() over (order by cluster_of(outputs.cluster, outputs.case_id)) as cluster_number, scores.score
from points_scores as scores
inner join int_outputs_numbered as outputs on scores.output_number = outputs.output_number
where scores.scope = ? and scores.scope_id = ? and scores.model = ? and scores.checkpoint is not distinct from ?
order by cluster_number, scores.score
"""
# For larger groups t intervals are as good, and draws take minutes.
MOST_OUTPUTS = 20_000


def add_points_intervals(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the source of stg_points_intervals from int_scores_unioned; empty without penalties."""
    connection.register("measured_points", pa.Table.from_pylist(list(_intervals(connection)), POINTS_INTERVAL_SCHEMA))
    connection.execute("create or replace table source_points_intervals as from measured_points")
    connection.unregister("measured_points")


def _intervals(connection: duckdb.DuckDBPyConnection) -> Iterator[dict[str, object]]:
    ((has_penalties,),) = connection.execute(_HAS_PENALTIES).fetchall()
    if not has_penalties:
        return
    from gradebook.rubrics.statistics.bootstrap import bootstrap_means, percentile_interval
    from gradebook.rubrics.statistics.intervals import SCORES

    connection.execute(_SCORES)
    for group in connection.execute(_GROUPS, [MOST_OUTPUTS]).fetchall():
        found = connection.execute(_OF_GROUP, group).fetchnumpy()
        ends = percentile_interval(bootstrap_means(found["score"], clusters=found["cluster_number"]))
        # The mean of a category is shown unclipped, the mean of a run clipped to 0..1.
        held = ends.clipped(SCORES) if group[0] == "run" else ends
        if held.is_known:
            named = dict(zip(("scope", "scope_id", "model", "checkpoint"), group, strict=True))
            yield {**named, "ci_low": held.low, "ci_high": held.high}
