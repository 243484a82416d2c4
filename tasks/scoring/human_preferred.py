"""Judged criteria whose rubric prefers people: the judge is asked only about outputs without ratings."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.model.rubric import Criterion
from gradebook.tasks.ratings.run_ratings import score_ratings

RATINGS_METHOD = "ratings"  # method of a verdict by people
JudgeOthers = Callable[[pa.ChunkedArray], pa.Table]


def score_preferred(
    run_id: str, criterion: Criterion, output_ids: pa.ChunkedArray, ratings_file: Path, judge_others: JudgeOthers
) -> pa.Table:
    """Verdicts of a criterion that prefers people: `VERDICT_SCHEMA`, one row per output, in order.

    judge_others: verdicts of the judge on the unrated outputs, in the given order; not called if all are rated. The
    method of a verdict by people is `ratings`.
    """
    if not ratings_file.exists():
        return judge_others(output_ids)
    people = score_ratings(run_id, criterion, pa.table({"output_id": output_ids}), ratings_file)
    is_scored = pc.is_valid(people.column("score"))
    methods = pa.repeat(RATINGS_METHOD, people.num_rows)
    people = people.set_column(people.schema.get_field_index("method"), people.schema.field("method"), methods)
    if pc.all(is_scored).as_py():
        return people
    others = judge_others(output_ids.filter(pc.invert(is_scored)))
    # The judge's rows follow all of the people's, in the outputs' order.
    other_places = pc.add(pc.cumulative_sum(pc.invert(is_scored).cast(pa.int64())), people.num_rows - 1)
    places = pc.if_else(is_scored, pa.array(range(people.num_rows), pa.int64()), other_places)
    return pa.concat_tables([people, others]).take(places)
