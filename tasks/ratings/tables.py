"""Tables of people's ratings: `ratings`, `step_ratings` (marks of the steps of agents) and `claim_ratings` (verdicts on
claims): insert new rows, count and find stored ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.text.sentences import split_sentences
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import read_rows
from gradebook.tasks.lake.sql import open_database, query

# Identity of a rating of a question, without its file: the same rating from another path is the same rating.
RATING_KEY = ("output_id", "criterion_id", "rater", "level_id", "score", "notes", "rated_at")
QUARANTINE_KEY = ("source", "line", "reason", "row")


def drop_taken_back(marks: pa.Table) -> pa.Table:
    """Drop the marks of one file that a later mark retracts.

    marks: `RATING_SCHEMA` and `line`; score is null for a mark that does not apply. Returns the same columns, for each
    rater, output and criterion: only the latest mark if that one does not apply, else only the ratings.
    """
    if not marks.column("score").null_count:
        return marks
    with open_database() as connection:
        connection.register("marks", marks)
        return connection.execute(query("ratings/standing_marks")).to_arrow_table().cast(marks.schema)


def insert_ratings(connection: duckdb.DuckDBPyConnection, relation: str) -> None:
    """Insert the rows of a relation that the table does not have yet, each once.

    relation: name of one with the columns of `RATING_SCHEMA` and `line`, by which rows are ordered: of a rater's
    ratings the one stored later counts. So an undated rating is inserted again if another one was stored after it. A
    row without a score is inserted if it has a note or retracts a stored rating.
    """
    connection.execute("set threads = 1")  # more threads would change the order of lines
    connection.execute(
        f"insert into ratings by name select * exclude (line) from ({_new_rows(relation)}) order by line"
    )
    connection.execute("reset threads")


def count_new_ratings(connection: duckdb.DuckDBPyConnection, relation: str) -> tuple[int, int]:
    """Number of ratings that `insert_ratings` would add, and of rows that retract one."""
    rated = "(select (output_id, criterion_id, rater) from ratings where score is not null)"
    taken_back = f"count(*) filter (score is null and (output_id, criterion_id, rater) in {rated})"
    counts = f"select count(score), {taken_back} from ({_new_rows(relation)})"
    ((new_count, taken_back_count),) = connection.execute(counts).fetchall()
    return int(new_count), int(taken_back_count)


def _new_rows(relation: str) -> str:
    """Query for the rows of a relation that must be inserted."""
    equal_columns = (f"kept.{name} is not distinct from given.{name}" for name in RATING_KEY)
    is_same = " and ".join([*equal_columns, "coalesce(kept.question_digest = given.question_digest, true)"])
    return query("ratings/new_ratings", given=relation, is_same=is_same)


def count_new_refused(connection: duckdb.DuckDBPyConnection, relation: str) -> int:
    """Number of refused rows that `insert_refused` would add."""
    keys = ", ".join(QUARANTINE_KEY)
    row = connection.execute(
        f"select count(*) from (select distinct {keys} from {relation} "
        f"except select {keys} from quarantine where run_id is null)"
    ).fetchone()
    return int(row[0]) if row else 0


def insert_refused(connection: duckdb.DuckDBPyConnection, relation: str) -> None:
    """Add refused rows to the quarantine, without a run; rows refused before are not added again."""
    is_same = " and ".join(f"kept.{name} is not distinct from given.{name}" for name in QUARANTINE_KEY)
    connection.execute(
        f"""
        insert into quarantine by name
        select distinct given.* from (from {relation}) as given
        anti join (from quarantine where run_id is null) as kept on {is_same}
        order by given.line
        """
    )


def count_ratings(lake: Lake) -> list[dict[str, Any]]:
    """Numbers of ratings by rater and criterion."""
    return _rows(lake, query("ratings/rater_counts"), {})


def find_ratings(lake: Lake, name: str) -> list[dict[str, Any]]:
    """Ratings of an output, or of all outputs of a case. Raises `InputError` if there are none."""
    rows = _rows(lake, query("ratings/ratings_of"), {"name": name})
    if not rows:
        raise InputError(name, f"no rating of it in {lake.name}", "an output's or a case's id")
    return rows


def _rows(lake: Lake, select: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    with connect_up_to_date(lake) as connection:
        table: pa.Table = connection.execute(select, values).to_arrow_table()
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


GIVEN_STEPS_SCHEMA = pa.schema(  # the table has `step_index` in place of `step`
    [
        *(pa.field(name, pa.string(), nullable=False) for name in ("output_id", "criterion_id", "rater", "step")),
        pa.field("label", pa.string()),  # null, without a score: the rater took an earlier mark back
        pa.field("score", pa.float64()),
        *(pa.field(name, pa.string()) for name in ("error_type", "error_subtype", "severity", "rationale")),
        pa.field("rated_at", pa.timestamp("us", tz="UTC")),
        pa.field("source", pa.string(), nullable=False),
        pa.field("question_digest", pa.string()),
    ]
)


def insert_step_ratings(connection: duckdb.DuckDBPyConnection, marks: pa.Table) -> None:
    """Add the marks that the table does not have yet. marks: as for `new_step_ratings`."""
    connection.register("found_step_ratings", new_step_ratings(connection, marks))
    connection.execute("insert into step_ratings by name from found_step_ratings")
    connection.unregister("found_step_ratings")


def new_step_ratings(connection: duckdb.DuckDBPyConnection, marks: pa.Table) -> pa.Table:
    """Marks that the table does not have yet, from whatever file.

    marks: with the column `step` in place of `step_index`: the number of a step, or the id of its span.
    """
    connection.register("given_steps", marks)
    new_marks: pa.Table = connection.execute(query("ratings/new_step_ratings")).to_arrow_table()
    connection.unregister("given_steps")
    return new_marks


CLAIM_RATINGS_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in ("output_id", "criterion_id", "rater")),
        *(pa.field(name, pa.string(), nullable=False) for name in ("side", "claim")),
        pa.field("verdict", pa.string()),  # null: does not apply, or the rater took an earlier one back
        pa.field("rationale", pa.string()),
        pa.field("rated_at", pa.timestamp("us", tz="UTC")),
        pa.field("source", pa.string(), nullable=False),
        pa.field("question_digest", pa.string()),
    ]
)


def insert_claim_ratings(connection: duckdb.DuckDBPyConnection, verdicts: pa.Table) -> None:
    """Add the verdicts that the table does not have yet. verdicts: as `CLAIM_RATINGS_SCHEMA`."""
    connection.register("found_claim_ratings", new_claim_ratings(connection, verdicts))
    connection.execute("insert into claim_ratings by name from found_claim_ratings")
    connection.unregister("found_claim_ratings")


def new_claim_ratings(connection: duckdb.DuckDBPyConnection, verdicts: pa.Table) -> pa.Table:
    """Verdicts that the table does not have yet, from whatever file."""
    connection.register("given_claims", verdicts)
    new_verdicts: pa.Table = connection.execute(query("ratings/new_claim_ratings")).to_arrow_table()
    connection.unregister("given_claims")
    return new_verdicts


def known_claims_of(connection: duckdb.DuckDBPyConnection, output_ids: Iterable[str]) -> set[tuple[str, str, str, str]]:
    """Claims that runs found in outputs: output_id, criterion_id, side and claim."""
    try:
        rows = read_rows(connection, query("ratings/known_claims"), output_ids=list(output_ids))
    except duckdb.CatalogException:  # a lake of an earlier gradebook
        return set()
    return {(row["output_id"], row["criterion_id"], row["side"], row["claim"]) for row in rows}


def claims_to_rate(
    connection: duckdb.DuckDBPyConnection, run_id: str, texts: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, list[dict[str, str]]]]:
    """Claims that a run's raters see, by output and criterion: side, claim, its sentence, and the judge's quote.

    texts: output and reference by output. The judge's verdict is not among them.
    """
    try:
        rows = read_rows(connection, query("ratings/claims_to_rate"), run_id=run_id, output_ids=list(texts))
    except duckdb.CatalogException:  # a version of the lake before there were claims
        return {}
    claims: dict[str, dict[str, list[dict[str, str]]]] = {}
    sentences: dict[tuple[str, str], Sequence[Any]] = {}
    for row in rows:
        text = texts[row["output_id"]].get(row["side"]) or ""
        key = row["output_id"], row["side"]
        if key not in sentences:
            sentences[key] = split_sentences(text)
        # By its position, as an earlier release may have split the text elsewhere.
        sentence_texts = (
            sentence.text for sentence in sentences[key] if sentence.start <= row["start"] < sentence.stop
        )
        sentence = next(sentence_texts, row["span"])
        claim = {"side": row["side"], "claim": row["claim"], "sentence": sentence, "quote": row["quote"] or ""}
        claims.setdefault(row["output_id"], {}).setdefault(row["criterion_id"], []).append(claim)
    return claims
