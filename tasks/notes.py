"""What a person should know of a run that is no failure: nothing is left out or taken in silently."""

import duckdb

from tasks.ingest import Ingested
from tasks.plan import RunPlan
from tasks.runs import Run


def run_notes(run: Run, ingested: Ingested, plan: RunPlan) -> list[str]:
    """A sentence for each thing that happened to the input on its way, in the order of the stages."""
    own_criteria_count = _count_own_criteria(ingested.shards)
    judged = [criterion.id for criterion in run.rubric.criteria if criterion.method.type == "judge"]
    sentences = {
        f"{ingested.quarantined_count:,} of {_counted(ingested.row_count, 'row')} refused: see the table quarantine": (
            ingested.quarantined_count
        ),
        f"{_counted(ingested.duplicate_count, 'repeated row')} stored once": ingested.duplicate_count,
        f"unknown columns are kept in metadata: {', '.join(ingested.extra_columns[:20])}": ingested.extra_columns,
        f"{_counted(own_criteria_count, 'output')} with criteria of their own, which are kept and not scored": (
            own_criteria_count
        ),
        f"{_counted(plan.unmatched_rating_count, 'rating')} of other outputs left out": plan.unmatched_rating_count,
        f"no --judge: {', '.join(judged)} unscored": judged and run.judge is None,
    }
    return [sentence for sentence, is_so in sentences.items() if is_so]


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _count_own_criteria(shards: tuple[str, ...]) -> int:
    with duckdb.connect() as connection:
        row = connection.execute("select count(criteria) from read_parquet(?)", [list(shards)]).fetchone()
    return int(row[0]) if row else 0
