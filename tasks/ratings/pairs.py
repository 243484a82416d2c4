"""Pairs of outputs of one case, of which people say the better: chosen, shown on drawn sides, stored as preferences."""

import hashlib
from collections.abc import Mapping
from datetime import datetime

import duckdb
import numpy as np
import orjson
import pyarrow as pa

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.rubric import OVERALL, Criterion, Overall
from gradebook.tasks.lake.rows import Row, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.ratings.rating_store import Task

PAIRED = "random"  # the one queue of pairs
_STEPS = (
    ("1_much", "1 is much better"),
    ("1", "1 is better"),
    ("tie", "about equal"),
    ("2", "2 is better"),
    ("2_much", "2 is much better"),
)
STEPS = tuple(Level(id=name, score=place / 4, label=label) for place, (name, label) in enumerate(_STEPS))
_TEXTS = ("prompt", "reference", "context", "text_a", "text_b", "audio_a", "audio_b")
_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("run_id", "baseline_run_id", "output_a", "output_b")),
        *(pa.field(name, pa.string()) for name in ("criterion_id", "rater", "choice")),
        pa.field("score", pa.float64()),
        *(pa.field(name, pa.string()) for name in ("shown_first", "notes")),
        pa.field("rated_at", pa.timestamp("us", tz="UTC")),
        pa.field("inclusion_rate", pa.float64()),
        pa.field("spent_s", pa.float64()),
        pa.field("evidence", pa.string()),
    ]
)


def pair_criteria(criteria: Mapping[str, Criterion | Overall]) -> dict[str, Criterion | Overall]:
    """The criteria with five steps from "1 is much better" to "2 is much better", and the overall row last."""
    steps = {"levels": STEPS, "scale": None}
    overall = criteria.get(OVERALL, Overall(label="Overall", description="Which answer is better as a whole?"))
    found = {name: each.model_copy(update=steps) for name, each in criteria.items() if name != OVERALL}
    return found | {OVERALL: overall.model_copy(update=steps)}


def choose_pairs(
    connection: duckdb.DuckDBPyConnection, run_id: str, baseline_run_id: str | None, count: int
) -> tuple[Task, ...]:
    """A random sample of the pairs of a run, or of a baseline's outputs with the run's.

    A pair has one case and sample number, and different texts; side A is the baseline's output, or that of the model
    and checkpoint that comes first by name. The order depends on the runs alone, as in `choose_outputs`. Raises
    `InputError` if there is no pair.
    """
    if baseline_run_id == run_id:
        raise InputError("--baseline", f"{run_id} itself", "another run, or none to compare the run's own models")
    rows = read_rows(connection, query("ratings/queue_pairs"), run_id=run_id, baseline_run_id=baseline_run_id)
    if not rows:
        found = f"no case of {run_id} with two different outputs"
        if baseline_run_id is not None:
            found = f"no case of {run_id} with another output in {baseline_run_id}"
        raise InputError("--pairs", found, "outputs of several models, or --baseline with a run of the same cases")
    rng = np.random.default_rng(list(f"{run_id} {baseline_run_id}".encode()))
    rate = min(count / len(rows), 1.0)
    return tuple(_task(rows[place], rate) for place in rng.permutation(len(rows))[:count])


def _task(row: Row, rate: float) -> Task:
    texts = {name: row[name] for name in _TEXTS}
    return Task(f"{row['output_a']} {row['output_b']}", PAIRED, rate, {**texts, "opinions": {}})


def shown_first(run_id: str, rater: str, pair: str) -> str:
    """Side of a pair that a rater sees as answer 1, `a` or `b`: by chance, and the same whenever it is shown again."""
    digest = hashlib.sha256(f"{run_id}\n{rater}\n{pair}".encode()).digest()
    return "ab"[digest[0] & 1]


def preferences_table(marks: list[Row], run_id: str, baseline_run_id: str | None) -> pa.Table:
    """Marks of pairs as rows of the table `preferences`, without case_id. score: preference for B, 0..1."""
    rows = []
    for mark in marks:
        first = shown_first(run_id, mark["rater"], mark["output_id"])
        output_a, output_b = mark["output_id"].split()
        score = mark["score"] if first == "a" or mark["score"] is None else 1 - mark["score"]
        side = {"1": first, "2": "ab"[first == "a"]}
        number, _, much = (mark["level_id"] or "").partition("_")
        choice = "_".join(filter(None, (side.get(number, number), much))) or None
        named = {"run_id": run_id, "baseline_run_id": baseline_run_id, "output_a": output_a, "output_b": output_b}
        rated_at = datetime.fromisoformat(mark["rated_at"])
        evidence = orjson.loads(mark["details"]).get("evidence")
        chosen = {"choice": choice, "score": score, "shown_first": first, "evidence": evidence}
        rows.append({**mark, **named, **chosen, "rated_at": rated_at})
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def insert_preferences(connection: duckdb.DuckDBPyConnection, preferences: pa.Table) -> None:
    """Insert the preferences that the lake does not have yet, each once."""
    connection.register("given_preferences", preferences)
    connection.execute(f"insert into preferences by name {query('ratings/new_preferences')}")
