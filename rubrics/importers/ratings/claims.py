"""Verdicts of a person on the claims of an output.

A row is {output_id, rater, rated_at, criterion_id, claims: [{claim, verdict, side, rationale}]}, as `ratings export`
writes it. `criterion_id` may be left out where one criterion has the method `claims`; `side` is `output` by default.
"""

from typing import Any

from gradebook.rubrics.importers.ratings.columns import (
    name_text,
    notes_text,
    read_moment,
    read_notes,
    read_rater,
    read_slot,
    words_of,
)
from gradebook.rubrics.importers.ratings.shapes import Mark, Misfit, Naming, Sheet
from gradebook.rubrics.model.claim_marks import CLAIM_LEVELS, ClaimMark
from gradebook.rubrics.model.rows import Row

MOST_CLAIMS = 10_000
SIDES = ("output", "reference")
_VERDICTS = {level.id: level.id for level in CLAIM_LEVELS} | {"not in source": "not_in_source"}


def has_claims(row: Row) -> bool:
    """Whether a row lists verdicts on claims."""
    found = row.get("claims")
    return isinstance(found, list) and all(isinstance(each, dict) for each in found)


def read_claims_row(row: Row, naming: Naming) -> Sheet:
    """Sheet of a row: its only mark has the verdicts and the person's notes. Raises `Misfit`."""
    found = row["claims"]
    if len(found) > MOST_CLAIMS:
        raise Misfit(f"claims: found {len(found):,}, expected at most {MOST_CLAIMS:,}")
    marks = tuple(_mark(each, place) for place, each in enumerate(found))
    named = [(mark.side, mark.claim) for mark in marks]
    if len(set(named)) < len(named):
        raise Misfit("claims: found a claim twice, expected each once")
    criterion_id = name_text("criterion_id", row.get("criterion_id")) or ""
    mark = Mark(criterion_id, marks, "claims", read_notes(row, naming))
    return Sheet(read_slot(row, naming), read_rater(row, naming), read_moment(row, naming), None, (mark,))


def _mark(entry: dict[str, Any], place: int) -> ClaimMark:
    where = f"claims[{place}]"
    claim, verdict, side = entry.get("claim"), entry.get("verdict"), entry.get("side") or SIDES[0]
    if not isinstance(claim, str) or not claim:
        raise Misfit(f"{where}.claim: found {words_of(claim)}, expected the claim's words")
    if side not in SIDES:
        raise Misfit(f"{where}.side: found {words_of(side)}, expected one of {', '.join(SIDES)}")
    known = _VERDICTS.get(verdict.strip().lower()) if isinstance(verdict, str) else None
    if known is None and verdict is not None:
        expected = ", ".join(level.id for level in CLAIM_LEVELS)
        raise Misfit(f"{where}.verdict: found {words_of(verdict)}, expected one of {expected}, or null")
    return ClaimMark(side, claim, known, notes_text(entry.get("rationale")))
