"""The table `claim_ratings`: people's verdicts on claims; and the claims that they are shown."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from gradebook.rubrics.text.sentences import split_sentences
from gradebook.tasks.lake.rows import read_rows
from gradebook.tasks.lake.sql import query

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


def insert_claim_ratings(connection: duckdb.DuckDBPyConnection, given: pa.Table) -> None:
    """Add the verdicts that the table does not have yet. given: as `CLAIM_RATINGS_SCHEMA`."""
    connection.register("found_claim_ratings", new_claim_ratings(connection, given))
    connection.execute("insert into claim_ratings by name from found_claim_ratings")
    connection.unregister("found_claim_ratings")


def new_claim_ratings(connection: duckdb.DuckDBPyConnection, given: pa.Table) -> pa.Table:
    """Verdicts that the table does not have yet, from whatever file."""
    connection.register("given_claims", given)
    found: pa.Table = connection.execute(query("ratings/new_claim_ratings")).to_arrow_table()
    connection.unregister("given_claims")
    return found


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
    found: dict[str, dict[str, list[dict[str, str]]]] = {}
    sentences: dict[tuple[str, str], Sequence[Any]] = {}
    for row in rows:
        text = texts[row["output_id"]].get(row["side"]) or ""
        place = row["output_id"], row["side"]
        if place not in sentences:
            sentences[place] = split_sentences(text)
        # By its place, as an earlier release may have split the text elsewhere.
        around = (each.text for each in sentences[place] if each.start <= row["start"] < each.stop)
        sentence = next(around, row["span"])
        shown = {"side": row["side"], "claim": row["claim"], "sentence": sentence, "quote": row["quote"] or ""}
        found.setdefault(row["output_id"], {}).setdefault(row["criterion_id"], []).append(shown)
    return found
