"""Gold outputs: rated before, mixed into a queue to see how a rater does beside what is settled."""

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.rows import make_table, read_published_run, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.ratings.evaluation_file import read_ratings
from gradebook.tasks.ratings.rating_store import GOLD, Task
from gradebook.tasks.ratings.run_ratings import refuse_ambiguous
from gradebook.tasks.rubric_store.questions import add_questions_of_run

EVERY = 10  # one of so many outputs is gold
Settled = Mapping[str, Mapping[str, Mapping[str, Any]]]  # level_id and score by output and criterion


def settled_ratings(
    connection: duckdb.DuckDBPyConnection, lake: Lake, run_id: str, rubric: Rubric, gold: str
) -> Settled:
    """Settled levels and scores of the run's outputs, from a file of ratings or from people's ratings of a run.

    gold: a ratings file as for `evaluate --ratings`, or the id of a run with decisions of adjudicators or with ratings
    on which at least two raters agree. Raises `InputError` if there is nothing, and `RatingsError`.
    """
    if os.path.isfile(gold):  # noqa: PTH113 - Path raises where a name is too long
        connection.register("file_ratings", read_ratings(Path(gold), rubric))
        connection.execute(_RUN_OUTPUTS, {"run_id": run_id})
        make_table(connection, "ratings/file_matches")
        refuse_ambiguous(connection)
        rows = read_rows(connection, query("ratings/gold_of_file"))
        expected = f"ratings of outputs of {run_id}"
    else:
        read_published_run(connection, lake, gold, query("published/run_with_rubric"))
        add_questions_of_run(connection, run_id, "ratings", "adjudications")
        rows = read_rows(connection, query("ratings/gold_of_run"), gold_run_id=gold)
        expected = "decisions of an adjudicator, or two raters who agree"
    settled: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        of_output = settled.setdefault(str(row["output_id"]), {})
        of_output[str(row["criterion_id"])] = {"level_id": row["level_id"], "score": row["score"]}
    if not settled:
        raise InputError("--gold", f"nothing settled in {gold}", expected)
    return settled


_RUN_OUTPUTS = """
create temp table run_outputs as
select output_id, case_id, model, checkpoint, sample_index from output_scores where run_id = $run_id
"""


def with_gold(tasks: Collection[Task], gold: Collection[Task], run_id: str) -> tuple[Task, ...]:
    """A queue with gold outputs among the others, in a fixed random order: one in ten, the first one first.

    gold: tasks of all gold outputs. An output of the queue that is gold is not in it twice.
    """
    ids = {each.output_id for each in gold}
    others = [each for each in tasks if each.output_id not in ids]
    pool = sorted(gold, key=lambda each: each.output_id)
    order = np.random.default_rng(list(f"{run_id} gold".encode())).permutation(len(pool))
    count = min(len(pool), -(-len(others) // (EVERY - 1)) or len(pool))
    mixed: list[Task] = []
    for place, index in enumerate(order[:count]):
        mixed += [replace(pool[index], selection=GOLD, inclusion_rate=None)]
        mixed += others[place * (EVERY - 1) : (place + 1) * (EVERY - 1)]
    return (*mixed, *others[count * (EVERY - 1) :])
