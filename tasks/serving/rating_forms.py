"""Fields of a rating sheet: shown by the page, and read back from what a browser sends."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.rubric import Criterion, Overall
from gradebook.tasks.ratings.rating_store import Mark

CAUSES = {
    "ambiguous_text": "the text is ambiguous",
    "rubric_gap": "the rubric has a gap",
    "mistake": "a rater's mistake",
    "edge_case": "an edge case",
    "taste": "taste",
}
CONFIDENCES = ("low", "medium", "high")
_DETAILS = {"cause": tuple(CAUSES), "confidence": CONFIDENCES, "needs_rubric_update": ("yes",)}
NOT_APPLICABLE = "n/a"  # no level's id has a slash
MOST_NOTE = 5_000  # characters
MOST_QUOTES, MOST_QUOTE = 10, 1_000  # marked for a criterion, and characters of each
MOST_FIELDS = 2_000
LONGEST_SHEET_S = 3_600.0  # a longer time was not spent on the sheet


Criteria = Mapping[str, Criterion | Overall]


@dataclass(frozen=True, slots=True)
class Row:
    """Criterion on a sheet. chosen: id of its level, `n/a` or an empty text; evidence: JSON list of marked passages."""

    criterion_id: str
    name: str
    question: str
    is_gate: bool
    levels: Sequence[Level]
    chosen: str
    note: str
    is_missing: bool
    opinions: Sequence[Mapping[str, Any]] = ()
    details: Mapping[str, str] = field(default_factory=dict)
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Criteria of one category, in the rubric's order. name: empty for criteria without one."""

    name: str
    rows: tuple[Row, ...]


def group_rows(
    criteria: Criteria,
    content: Mapping[str, str],
    missing: Sequence[str] = (),
    opinions: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> tuple[Group, ...]:
    """Rows of a sheet by category. content: fields chosen so far; missing: criteria to mark as unrated.

    opinions: ratings to decide on, by criterion.
    """
    groups: dict[str, list[Row]] = {}
    for criterion_id, criterion in criteria.items():
        if isinstance(criterion, Criterion):
            category, name, is_gate = criterion.category or "", criterion.name, criterion.gate
        else:
            category, name, is_gate = "", criterion.label, False
        groups.setdefault(category, []).append(
            Row(
                criterion_id,
                name or criterion_id.replace("_", " "),
                criterion.description,
                is_gate,
                criterion.ranked_levels,
                content.get(f"level.{criterion_id}", ""),
                content.get(f"note.{criterion_id}", ""),
                criterion_id in missing,
                (opinions or {}).get(criterion_id, ()),
                {name: content.get(f"{name}.{criterion_id}", "") for name in _DETAILS},
                content.get(f"evidence.{criterion_id}", ""),
            )
        )
    return tuple(Group(name, tuple(rows)) for name, rows in groups.items())


@dataclass(frozen=True, slots=True)
class SheetForm:
    """Sent sheet. content: the fields of the sheet's criteria; others are dropped."""

    action: str
    version: int
    spent_s: float
    content: Mapping[str, str]

    def missing(self, criteria: Criteria, *, is_decision: bool = False) -> tuple[str, ...]:
        """Criteria without a level or `n/a`; of decisions, also those without a cause."""
        fields = ("level", "cause") if is_decision else ("level",)
        return tuple(each for each in criteria if not all(self.content.get(f"{name}.{each}") for name in fields))

    def marks(self, criteria: Criteria) -> tuple[Mark, ...]:
        """Ratings by criterion; without level and score where a criterion does not apply."""
        marks = []
        for criterion_id, criterion in criteria.items():
            chosen = self.content.get(f"level.{criterion_id}", "")
            level = next((each for each in criterion.ranked_levels if each.id == chosen), None)
            note = self.content.get(f"note.{criterion_id}") or None
            level_id, score = (None, None) if level is None else (level.id, level.score)
            marks.append(Mark(criterion_id, level_id, score, note, _details_of(criterion_id, self.content)))
        return tuple(marks)


class WrongForm(ValueError):
    """A form that no page of ours sends."""


def read_form(body: bytes, criteria: Criteria) -> SheetForm:
    """Parse a sent sheet (application/x-www-form-urlencoded). Raises `WrongForm`."""
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError as error:
        raise WrongForm("the form can't be read") from error
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise WrongForm("a field is sent twice")
    content: dict[str, str] = {}
    for criterion_id, criterion in criteria.items():
        level, note = fields.get(f"level.{criterion_id}", ""), fields.get(f"note.{criterion_id}", "").strip()
        if level not in ("", NOT_APPLICABLE) and level not in [each.id for each in criterion.ranked_levels]:
            raise WrongForm(f"{criterion_id}: no level {level[:80]!r}")
        content |= {f"level.{criterion_id}": level, f"note.{criterion_id}": _note(note)}
        for name, known in _DETAILS.items():
            chosen = fields.get(f"{name}.{criterion_id}", "")
            if chosen not in ("", *known):
                raise WrongForm(f"{criterion_id}: no {name} {chosen[:80]!r}")
            content[f"{name}.{criterion_id}"] = chosen
        content[f"evidence.{criterion_id}"] = _evidence(criterion_id, fields.get(f"evidence.{criterion_id}", ""))
    try:
        version, spent_s = int(fields.get("version", "")), float(fields.get("spent_s") or 0)
    except ValueError as error:
        raise WrongForm("the form has no version") from error
    spent_s = 0.0 if math.isnan(spent_s) else min(max(spent_s, 0.0), LONGEST_SHEET_S)
    filled = {name: value for name, value in content.items() if value}
    return SheetForm(fields.get("action", "submit"), version, spent_s, filled)


def _evidence(criterion_id: str, text: str) -> str:
    """Quotes marked for a criterion, a JSON list; empty if there are none. Raises `WrongForm`."""
    if not text:
        return ""
    try:
        quotes = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WrongForm(f"{criterion_id}: the marked words are no list") from error
    is_list = isinstance(quotes, list) and all(isinstance(each, str) and 0 < len(each) <= MOST_QUOTE for each in quotes)
    if not is_list or len(quotes) > MOST_QUOTES:
        raise WrongForm(f"{criterion_id}: at most {MOST_QUOTES} marked passages of 1 to {MOST_QUOTE:,} characters")
    return json.dumps([each.replace("\x00", "") for each in quotes], ensure_ascii=False) if quotes else ""


def _details_of(criterion_id: str, content: Mapping[str, str]) -> dict[str, str]:
    names = (*_DETAILS, "evidence")
    return {name: value for name in names if (value := content.get(f"{name}.{criterion_id}"))}


def _note(text: str) -> str:
    if len(text) > MOST_NOTE:
        raise WrongForm(f"a note of {len(text):,} characters, at most {MOST_NOTE:,} are stored")
    return text.replace("\r\n", "\n").replace("\x00", "")
