"""Pairs of outputs of one case that people compare: chosen, shown in random order, stored as preferences."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime

import duckdb
import numpy as np
import orjson
import pyarrow as pa

from gradebook.rubrics.importers.ratings.sheets import Sheet
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.methods import PreferenceMethod
from gradebook.rubrics.model.rubric import OVERALL, Criterion, Overall, Rubric
from gradebook.tasks.lake.rows import Row, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.ratings.import_sheets import match_slots
from gradebook.tasks.ratings.rating_store import Task
from gradebook.tasks.rubric_store.questions import add_questions_of_run

PAIRED = "random"  # the one queue of pairs
_STEPS = (
    ("1_much", "1 is much better"),
    ("1", "1 is better"),
    ("tie", "about equal"),
    ("2", "2 is better"),
    ("2_much", "2 is much better"),
)
STEPS = tuple(Level(id=name, score=index / 4, label=label) for index, (name, label) in enumerate(_STEPS))
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
        pa.field("likert_value", pa.float64()),
    ]
)
_CHOICES_SCHEMA = pa.schema(
    [
        pa.field("line", pa.int64()),
        *(pa.field(name, pa.string()) for name in ("chosen_id", "other_id", "rater", "notes")),
        pa.field("rated_at", pa.timestamp("us", tz="UTC")),
        pa.field("likert_value", pa.float64()),
    ]
)

_BASELINES_SCHEMA = pa.schema([pa.field("criterion_id", pa.string()), pa.field("against", pa.string())])


def pair_criteria(criteria: Mapping[str, Criterion | Overall]) -> dict[str, Criterion | Overall]:
    """The criteria with five steps from "1 is much better" to "2 is much better", and the overall row last."""
    steps = {"levels": STEPS, "scale": None}
    overall = criteria.get(OVERALL, Overall(label="Overall", description="Which answer is better as a whole?"))
    with_steps = {name: criterion.model_copy(update=steps) for name, criterion in criteria.items() if name != OVERALL}
    return with_steps | {OVERALL: overall.model_copy(update=steps)}


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
        what = f"no case of {run_id} with two different outputs"
        if baseline_run_id is not None:
            what = f"no case of {run_id} with another output in {baseline_run_id}"
        raise InputError("--pairs", what, "outputs of several models, or --baseline with a run of the same cases")
    rng = np.random.default_rng(list(f"{run_id} {baseline_run_id}".encode()))
    rate = min(count / len(rows), 1.0)
    return tuple(_task(rows[index], rate) for index in rng.permutation(len(rows))[:count])


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
        number, _, strength = (mark["level_id"] or "").partition("_")
        choice = "_".join(filter(None, (side.get(number, number), strength))) or None
        outputs = {"run_id": run_id, "baseline_run_id": baseline_run_id, "output_a": output_a, "output_b": output_b}
        rated_at = datetime.fromisoformat(mark["rated_at"])
        evidence = orjson.loads(mark["details"]).get("evidence")
        preference = {"choice": choice, "score": score, "shown_first": first, "evidence": evidence}
        rows.append({**mark, **outputs, **preference, "rated_at": rated_at})
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def imported_choices(
    connection: duckdb.DuckDBPyConnection, sheets: Sequence[tuple[Sheet, str | None]], run_id: str | None
) -> tuple[pa.Table, int]:
    """Choices of a file as rows of the table `preferences`, and the number of those whose outputs share no run.

    sheets: each with its output. run_id: the run; None: the latest one with both outputs.
    """
    pairs = [(sheet, output_id, other) for sheet, output_id in sheets for other in sheet.better_than]
    others = match_slots(connection, [other for _, _, other in pairs], run_id).output_ids
    rows = [
        (line, output_id, other, sheet.rater, sheet.notes, sheet.rated_at, sheet.likert_value)
        for line, ((sheet, output_id, _), other) in enumerate(zip(pairs, others, strict=True))
    ]
    records = [dict(zip(_CHOICES_SCHEMA.names, row, strict=True)) for row in rows]
    connection.register("given_choices", pa.Table.from_pylist(records, schema=_CHOICES_SCHEMA))
    choices = connection.execute(query("ratings/imported_choices"), {"run_id": run_id}).to_arrow_table()
    connection.unregister("given_choices")
    return choices, len(pairs) - choices.num_rows


def rated_preferences(
    connection: duckdb.DuckDBPyConnection, rubric: Rubric, ratings: pa.Table, run_id: str
) -> pa.Table:
    """Ratings of a run's criteria by preference against a model as rows of the table `preferences`.

    rubric: the run's. ratings: `RATING_SCHEMA` and `line`.
    """
    against = {
        criterion.id: criterion.method.against
        for criterion in rubric.criteria
        if isinstance(criterion.method, PreferenceMethod)
    }
    baselines = pa.table({"criterion_id": [*against], "against": [*against.values()]}, schema=_BASELINES_SCHEMA)
    connection.register("given_ratings", ratings)
    connection.register("given_baselines", baselines)
    rows = connection.execute(query("ratings/rated_preferences"), {"run_id": run_id}).to_arrow_table()
    connection.unregister("given_baselines")
    return rows


def preferences_of_runs(connection: duckdb.DuckDBPyConnection, ratings: pa.Table) -> list[pa.Table]:
    """`rated_preferences` of each published run that has rated outputs, and whose criteria have the rated texts."""
    connection.register("new_ratings", ratings)
    tables = list[pa.Table]()
    for (run_id,) in connection.execute(query("ratings/runs_by_preference")).fetchall():
        if rubric := add_questions_of_run(connection, run_id):
            answers = query("rubric_store/answers", given="new_ratings")
            answering_ratings = connection.execute(answers).to_arrow_table()
            tables.append(rated_preferences(connection, rubric, answering_ratings, run_id))
    connection.unregister("new_ratings")
    return tables


def current_preferences(connection: duckdb.DuckDBPyConnection, rubric: Rubric, run_id: str) -> pa.Table:
    """`rated_preferences` of one run by the latest ratings of the lake, such as those of an earlier run."""
    add_questions_of_run(connection, run_id, "ratings")
    ratings = connection.execute(query("ratings/current_ratings")).to_arrow_table()
    return rated_preferences(connection, rubric, ratings, run_id)


def count_new_preferences(connection: duckdb.DuckDBPyConnection, preferences: pa.Table) -> int:
    """Count the preferences that the lake does not have yet."""
    connection.register("given_preferences", preferences)
    row = connection.execute(f"select count(*) from ({query('ratings/new_preferences')})").fetchone()
    return int(row[0]) if row else 0


def insert_preferences(connection: duckdb.DuckDBPyConnection, preferences: pa.Table) -> None:
    """Insert the preferences that the lake does not have yet, each once."""
    connection.register("given_preferences", preferences)
    connection.execute(f"insert into preferences by name {query('ratings/new_preferences')}")
