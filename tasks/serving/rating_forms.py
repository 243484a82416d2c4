"""Fields of a rating sheet: rows that the page shows, and the parsing of a submitted form."""

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from gradebook.rubrics.importers.ratings.grading import Scales
from gradebook.rubrics.importers.ratings.sheets import Mark as Marked
from gradebook.rubrics.importers.ratings.sheets import MarkedStep, Misfit
from gradebook.rubrics.importers.ratings.trajectory import StepScale
from gradebook.rubrics.model.claim_marks import CLAIM_LEVELS, ClaimMark, describe_marks, score_marks
from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.methods import ClaimsMethod
from gradebook.rubrics.model.rubric import Criterion, Overall
from gradebook.rubrics.model.taxonomy import StepMark, describe_steps, ranked_severities, score_steps
from gradebook.rubrics.prompts.reply_parser import clean_text
from gradebook.rubrics.prompts.step_marks import JUDGED_KINDS
from gradebook.tasks.ratings.rating_queue import CAUSES, CONFIDENCES, step_name
from gradebook.tasks.ratings.rating_store import Mark
from gradebook.tasks.reporting.sections.examples import Card

MOST_CLAIM_ROWS = 200  # claims of one criterion


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """Claim of the output, or of its reference, as a row of the sheet. criterion_id: criterion that the claims rate.

    quote: words of the source that the judge named, shown on request; its verdict is not shown.
    """

    criterion_id: str
    question: str
    method: ClaimsMethod
    number: int
    side: str
    claim: str
    sentence: str
    quote: str

    @property
    def ranked_levels(self) -> tuple[Level, ...]:
        """Verdicts, worst first."""
        return CLAIM_LEVELS

    @property
    def details(self) -> dict[str, str]:
        """Columns that name the claim in the table `claim_ratings`."""
        return {"criterion_id": self.criterion_id, "side": self.side, "claim": self.claim}


def claim_rows(criterion: Criterion, claims: Sequence[Mapping[str, str]]) -> dict[str, ClaimRow]:
    """Rows of the claims that a run found, by name: the criterion's id and the claim's number, from 1."""
    method = criterion.method
    if not isinstance(method, ClaimsMethod):
        return {}
    rows = (
        ClaimRow(criterion.id, criterion.description, method, number, **claim)
        for number, claim in enumerate(claims[:MOST_CLAIM_ROWS], 1)
    )
    return {f"{row.criterion_id}.{row.number}": row for row in rows}


def claim_scores(rows: Mapping[str, object], content: Mapping[str, str]) -> Iterator[Mark]:
    """Rating of each criterion whose claims a sheet marks, if the marks give a score."""
    marks: dict[str, list[ClaimMark]] = {}
    methods: dict[str, ClaimsMethod] = {}
    level_ids = {level.id for level in CLAIM_LEVELS}
    for name, row in rows.items():
        if isinstance(row, ClaimRow):
            level_id = content.get(f"level.{name}", "")
            mark = ClaimMark(row.side, row.claim, level_id if level_id in level_ids else None)
            marks.setdefault(row.criterion_id, []).append(mark)
            methods[row.criterion_id] = row.method
    for criterion_id, of_criterion in marks.items():
        score = score_marks(methods[criterion_id].measure, of_criterion)
        yield Mark(criterion_id, None, score, None if score is None else describe_marks(of_criterion))


_DETAILS = {"cause": tuple(CAUSES), "confidence": CONFIDENCES, "needs_rubric_update": ("yes",)}
NO_NUMBER = "none"  # checkbox beside a number field: the criterion does not apply
STEP_DETAILS = ("error", "severity")
MOST_STEP_NOTE = 1_000  # characters of a note on a step
MOST_BUTTONS = 11  # numbers of a scale shown as buttons, as 0 to 10; a longer scale is a number field
NOT_APPLICABLE = "n/a"  # no level's id has a slash
_NO_LEVEL = (None, "", NOT_APPLICABLE)
NOTES = "notes"  # field of the whole sheet
TEN = "x"  # key of the level 10
MOST_NOTE = 5_000  # characters of a note
MOST_QUOTES, MOST_QUOTE = 10, 1_000  # quotes of a criterion, and characters of a quote
MOST_OTHER_FIELDS, MOST_ROW_FIELDS = 100, 10  # form fields outside of rows, and fields of each row
LONGEST_SHEET_S = 3_600.0  # after a longer time, the rater was away


@dataclass(frozen=True, slots=True)
class StepRow:
    """Step of the output as a row of the sheet. criterion_id: criterion that the marks of the steps rate.

    title: of the row; is_disputed: a lead decides on it.
    """

    criterion_id: str
    title: str
    question: str
    scale: StepScale
    index: int
    card: Card
    is_disputed: bool = False

    @property
    def ranked_levels(self) -> tuple[Level, ...]:
        """Labels of a step, worst first."""
        return self.scale.levels

    @property
    def errors(self) -> tuple[str, ...]:
        """Errors to choose from, as type or type/subtype."""
        kinds = self.scale.taxonomy.kinds if self.scale.taxonomy else ()
        return tuple(kind.path for kind in kinds)

    @property
    def severities(self) -> tuple[str, ...]:
        """Severities to choose from, from slight to grave."""
        return ranked_severities(self.scale.penalties or {})

    def slip(self, level_id: str, details: Mapping[str, str], note: str | None) -> MarkedStep:
        """The rater's choice, in the form that an import reads; a right step has no error, even if one was chosen."""
        details = {} if level_id == self.ranked_levels[-1].id else details
        return MarkedStep(str(self.index), details.get("error"), details.get("severity"), level_id, rationale=note)


Criteria = Mapping[str, Criterion | Overall | StepRow | ClaimRow]


def step_rows(
    stepwise: Mapping[str, tuple[Criterion, StepScale]], cards: Iterable[Card], disputed: Collection[str] = ()
) -> dict[str, StepRow]:
    """Rows of the steps that an agent took, step by step, by name: the criterion's id and the step's number.

    stepwise: the criteria that steps rate, each with its scale. disputed: the names of the only rows of a lead's sheet.
    """
    rows: dict[str, StepRow] = {}
    for card in cards:
        for criterion, scale in stepwise.values():
            name = step_name(criterion.id, card.number)
            is_wanted = name in disputed if disputed else card.kind in JUDGED_KINDS
            if is_wanted and not card.left_out:
                more = f": {criterion.name or criterion.id.replace('_', ' ')}" if len(stepwise) > 1 else ""
                title = f"Step {card.number}{more}"
                rows[name] = StepRow(
                    criterion.id, title, criterion.description, scale, card.number, card, bool(disputed)
                )
    return rows


def step_marks(
    criteria: Criteria, content: Mapping[str, str], agreed: Mapping[str, Sequence[Sequence[Any]]] | None = None
) -> dict[str, list[StepMark]]:
    """Marks of steps by criterion, without unmarked steps. Raises `Misfit` for an unfinished one.

    agreed: marks of the steps that a lead's sheet does not show, by criterion, as `StepMark`.
    """
    rated = {row.criterion_id for row in criteria.values() if isinstance(row, StepRow)}
    marks = {
        name: [StepMark(*mark) for mark in sequences] for name, sequences in (agreed or {}).items() if name in rated
    }
    for name, row in criteria.items():
        level = content.get(f"level.{name}", "")
        if isinstance(row, StepRow):
            of_criterion = marks.setdefault(row.criterion_id, [])
            if level not in ("", NOT_APPLICABLE):
                slip = row.slip(level, _details_of(name, row, content), content.get(f"note.{name}"))
                of_criterion.extend(row.scale.marks([slip]))
    return marks


@dataclass(frozen=True, slots=True)
class Row:
    """Criterion on a sheet.

    chosen: id of its level, `n/a` or an empty text; evidence: JSON list of marked passages; number: range of
    the scale if it has too many numbers for buttons.
    """

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
    step: StepRow | None = None
    claim: ClaimRow | None = None
    number: tuple[int, int] | None = None
    is_optional: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """Keyboard key of each level, empty if it has none; the last is that of "does not apply".

        Keys of numbers are their digits, x for 10; keys of other levels count from 1.
        """
        ids = [level.id for level in self.levels]
        if all(level_id.isascii() and level_id.isdigit() and int(level_id) <= 10 for level_id in ids):
            keys = [TEN if int(level_id) == 10 else str(int(level_id)) for level_id in ids]
        else:
            keys = [str(position) if position < 10 else "" for position in range(1, len(ids) + 1)]
        return (*keys, "n" if {"0", TEN} & {*keys} else "0")


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
    groups: dict[tuple[bool, str], list[Row]] = {}
    for criterion_id, criterion in criteria.items():
        step = criterion if isinstance(criterion, StepRow) else None
        category, name, is_gate = "", step.title if step else None, False
        if isinstance(criterion, Criterion):
            category, name, is_gate = criterion.category or "", criterion.name, criterion.gate
        elif isinstance(criterion, Overall):
            name = criterion.label
        elif isinstance(criterion, ClaimRow):
            name = f"Claim {criterion.number}"
        groups.setdefault((isinstance(criterion, Overall), category), []).append(
            Row(
                criterion_id,
                name or criterion_id.replace("_", " "),
                criterion.question if isinstance(criterion, StepRow | ClaimRow) else criterion.description,
                is_gate,
                criterion.ranked_levels,
                content.get(f"level.{criterion_id}", ""),
                content.get(f"note.{criterion_id}", ""),
                criterion_id in missing,
                (opinions or {}).get(criterion_id, ()),
                {name: content.get(f"{name}.{criterion_id}", "") for name in _known_details(criterion)},
                content.get(f"evidence.{criterion_id}", ""),
                step,
                criterion if isinstance(criterion, ClaimRow) else None,
                number_range(criterion.ranked_levels),
                _is_optional(criterion),
            )
        )
    ordered = sorted(groups.items(), key=lambda group: group[0][0])  # the overall row is last
    return tuple(Group(name, tuple(rows)) for (_, name), rows in ordered)


def _is_optional(criterion: Criterion | Overall | StepRow | ClaimRow) -> bool:
    return isinstance(criterion, Overall) and not criterion.required


def number_range(levels: Sequence[Level]) -> tuple[int, int] | None:
    """Range of a scale of whole numbers in order with too many levels for buttons; None for any other scale."""
    if len(levels) <= MOST_BUTTONS or not all(level.id.isascii() and level.id.isdigit() for level in levels):
        return None
    numbers = [int(level.id) for level in levels]
    return (numbers[0], numbers[-1]) if numbers == [*range(numbers[0], numbers[-1] + 1)] else None


@dataclass(frozen=True, slots=True)
class SheetForm:
    """Submitted sheet. content: the fields of the sheet's criteria; other fields are dropped."""

    action: str
    version: int
    spent_s: float
    content: Mapping[str, str]

    def missing(self, criteria: Criteria, *, is_decision: bool = False) -> tuple[str, ...]:
        """Names of rows without a level or `n/a`; in decisions also without a cause, for steps without an error."""
        fields = ("level", "cause") if is_decision else ("level",)
        return tuple(
            criterion_id
            for criterion_id, criterion in criteria.items()
            if not (_is_optional(criterion) or all(self.content.get(f"{name}.{criterion_id}") for name in fields))
            or self._is_unfinished(criterion_id, criterion)
        )

    def _is_unfinished(self, name: str, criterion: Criterion | Overall | StepRow | ClaimRow) -> bool:
        if not isinstance(criterion, StepRow):
            return False
        try:
            step_marks({name: criterion}, self.content)
        except Misfit:
            return True
        return False

    def marks(
        self,
        criteria: Criteria,
        agreed: Mapping[str, Sequence[Sequence[Any]]] | None = None,
        scales: Scales | None = None,
    ) -> tuple[Mark, ...]:
        """Ratings by criterion; without level and score where a criterion does not apply.

        A step's mark has the step's number and its error as details; the score of all steps is one more rating, or one
        more decision with the cause of the first one. agreed: as for `step_marks`. scales: of a rubric whose
        criteria count the errors of steps; each of these has one more rating. The sheet's notes go to the overall row
        if that is rated, else to the ratings without notes of their own; where nothing applies, to the last row.
        """
        marks = []
        shared = self.content.get(NOTES)
        plain = {name: row for name, row in criteria.items() if isinstance(row, Criterion | Overall)}
        rated = [row for name, row in plain.items() if self.content.get(f"level.{name}") not in _NO_LEVEL]
        has_overall = any(isinstance(row, Overall) for row in rated)
        for criterion_id, criterion in criteria.items():
            chosen = self.content.get(f"level.{criterion_id}", "")
            level = next((ranked for ranked in criterion.ranked_levels if ranked.id == chosen), None)
            note = self.content.get(f"note.{criterion_id}") or None
            has_notes = isinstance(criterion, Overall if has_overall else Criterion) and level is not None
            if has_notes or (not rated and criterion_id == next(reversed(plain), None)):
                note = note or shared or None
            level_id, score = (None, None) if level is None else (level.id, level.score)
            details = _details_of(criterion_id, criterion, self.content)
            if isinstance(criterion, StepRow):
                details = _step_details(criterion, details, level_id)
            elif isinstance(criterion, ClaimRow):
                details = criterion.details
            marks.append(Mark(criterion_id, level_id, score, note, details))
        return (*marks, *self._step_scores(criteria, agreed, scales), *claim_scores(criteria, self.content))

    def _step_scores(
        self, criteria: Criteria, agreed: Mapping[str, Sequence[Sequence[Any]]] | None, scales: Scales | None
    ) -> Iterator[Mark]:
        first = {
            row.criterion_id: (name, row) for name, row in reversed([*criteria.items()]) if isinstance(row, StepRow)
        }
        for criterion_id, marks in step_marks(criteria, self.content, agreed).items():
            name, row = first[criterion_id]
            penalties, row_details = row.scale.penalties, _details_of(name, row, self.content)
            score = score_steps(marks, penalties) if marks else None
            details = {detail: value for detail, value in row_details.items() if detail in _DETAILS}
            yield Mark(criterion_id, None, score, describe_steps(marks, penalties) if marks else None, details)
            if scales is not None and criterion_id == scales.trajectory:
                yield from _counts(scales, marks, details)


def _counts(scales: Scales, marks: Sequence[StepMark], details: Mapping[str, str]) -> Iterator[Mark]:
    """Ratings of the criteria that count errors of steps; they do not apply where no step has a label."""
    slips = tuple(
        MarkedStep(mark.step, mark.error_type, mark.severity, mark.label, mark.error_subtype, mark.rationale)
        for mark in marks
    )
    for count in scales.counted(Marked("", slips, "running_score")):
        level = scales.ladders[count.criterion].levels[count.value] if marks else None
        level_id, score = (None, None) if level is None else (level.id, level.score)
        yield Mark(count.criterion, level_id, score, count.notes, details)


class WrongForm(ValueError):
    """Form that does not come from a rating page."""


def read_form(body: bytes, criteria: Criteria) -> SheetForm:
    """Parse a submitted sheet (application/x-www-form-urlencoded). Raises `WrongForm`."""
    try:
        most = MOST_OTHER_FIELDS + MOST_ROW_FIELDS * len(criteria)
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=most, errors="strict")
    except ValueError as error:
        raise WrongForm("the form can't be read") from error
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise WrongForm("a field is sent twice")
    content: dict[str, str] = {}
    for criterion_id, criterion in criteria.items():
        level, note = fields.get(f"level.{criterion_id}", ""), fields.get(f"note.{criterion_id}", "").strip()
        if number_range(criterion.ranked_levels):
            level = _number(level, criterion.ranked_levels, is_missing=bool(fields.get(f"{NO_NUMBER}.{criterion_id}")))
        if level not in ("", NOT_APPLICABLE) and level not in [ranked.id for ranked in criterion.ranked_levels]:
            raise WrongForm(f"{criterion_id}: no level {level[:80]!r}")
        most = MOST_STEP_NOTE if isinstance(criterion, StepRow) else MOST_NOTE
        content |= {f"level.{criterion_id}": level, f"note.{criterion_id}": _note(note, most)}
        for name, values in _known_details(criterion).items():
            chosen = fields.get(f"{name}.{criterion_id}", "")
            if chosen not in ("", *values):
                raise WrongForm(f"{criterion_id}: no {name} {chosen[:80]!r}")
            content[f"{name}.{criterion_id}"] = chosen
        content[f"evidence.{criterion_id}"] = _evidence(criterion_id, fields.get(f"evidence.{criterion_id}", ""))
    try:
        version, spent_s = int(fields.get("version", "")), float(fields.get("spent_s") or 0)
    except ValueError as error:
        raise WrongForm("the form has no version") from error
    spent_s = 0.0 if math.isnan(spent_s) else min(max(spent_s, 0.0), LONGEST_SHEET_S)
    content[NOTES] = _note(fields.get(NOTES, "").strip(), MOST_NOTE)
    filled = {name: value for name, value in content.items() if value}
    return SheetForm(fields.get("action", "submit"), version, spent_s, filled)


def _number(text: str, levels: Sequence[Level], *, is_missing: bool) -> str:
    """Id of the level in a number field; empty if the field has no number of the scale."""
    digits = text.strip().lstrip("0") or text.strip()[:1]
    return NOT_APPLICABLE if is_missing else next((level.id for level in levels if level.id == digits), "")


def _evidence(criterion_id: str, text: str) -> str:
    """Quotes marked for a criterion, a JSON list; empty if there are none. Raises `WrongForm`."""
    if not text:
        return ""
    try:
        quotes = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WrongForm(f"{criterion_id}: the marked words are no list") from error
    is_list = isinstance(quotes, list) and all(
        isinstance(quote, str) and 0 < len(quote) <= MOST_QUOTE for quote in quotes
    )
    if not is_list or len(quotes) > MOST_QUOTES:
        raise WrongForm(f"{criterion_id}: at most {MOST_QUOTES} marked passages of 1 to {MOST_QUOTE:,} characters")
    return json.dumps([clean_text(quote, MOST_QUOTE) for quote in quotes], ensure_ascii=False) if quotes else ""


def _known_details(criterion: Criterion | Overall | StepRow | ClaimRow) -> Mapping[str, tuple[str, ...]]:
    """Further fields of a row besides level and note, with their allowed values."""
    if isinstance(criterion, StepRow):
        step_details = dict(zip(STEP_DETAILS, (criterion.errors, criterion.severities), strict=True))
        return step_details | (_DETAILS if criterion.is_disputed else {})
    if isinstance(criterion, ClaimRow):
        return {}
    return _DETAILS


def _details_of(
    criterion_id: str, criterion: Criterion | Overall | StepRow | ClaimRow, content: Mapping[str, str]
) -> dict[str, str]:
    names = (*_known_details(criterion), "evidence")
    return {name: value for name in names if (value := content.get(f"{name}.{criterion_id}"))}


def _step_details(row: StepRow, details: Mapping[str, str], level_id: str | None) -> dict[str, str]:
    """Details of a step's mark: its criterion and number, and its error unless the step is right."""
    is_wrong = level_id is not None and level_id != row.ranked_levels[-1].id
    error_type, _, error_subtype = (details.get("error") or "").partition("/")
    error_details = {"error_type": error_type, "error_subtype": error_subtype, "severity": details.get("severity")}
    placed = {"criterion_id": row.criterion_id, "step": str(row.index)}
    placed |= {name: value for name, value in details.items() if name in _DETAILS}
    return placed | {name: value for name, value in error_details.items() if value and is_wrong}


def _note(text: str, most: int) -> str:
    if len(text) > most:
        raise WrongForm(f"a note of {len(text):,} characters, at most {most:,} are stored")
    return text.replace("\r\n", "\n").replace("\x00", "")
