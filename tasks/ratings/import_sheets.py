"""Rating sheets of a file: parsed, graded by the rubric's ladders, or refused."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from gradebook.rubrics.files.case_criteria import read_case_criteria_text
from gradebook.rubrics.importers.ratings.columns import words_of
from gradebook.rubrics.importers.ratings.grading import Grader, Rated, Scales, scales_of_row
from gradebook.rubrics.importers.ratings.ladders import Ladder, Numbers
from gradebook.rubrics.importers.ratings.registry import READERS, guess_format
from gradebook.rubrics.importers.ratings.shapes import LeftOut, Mark, Misfit, Naming, Sheet
from gradebook.rubrics.model.errors import Fault, InputError, RatingsError
from gradebook.rubrics.model.rubric import OVERALL
from gradebook.tasks.datasets.bad_rows import BadRows
from gradebook.tasks.datasets.file_formats import RawRow
from gradebook.tasks.ratings.claim_ratings import CLAIM_RATINGS_SCHEMA
from gradebook.tasks.ratings.evaluation_file import RATING_SCHEMA
from gradebook.tasks.ratings.import_matching import Matches, slot_fault
from gradebook.tasks.ratings.import_sources import read_rating_rows
from gradebook.tasks.ratings.step_ratings import GIVEN_STEPS_SCHEMA

MOST_SHEETS = 2_000_000  # in memory, about a kilobyte each
MOST_ROW_CHARACTERS = 2_000  # of a refused row
MOST_REFUSED_TEXTS = 20_000  # refused rows stored with their text; later ones only with line and reason
GIVEN_SCHEMA = pa.schema([*RATING_SCHEMA, pa.field("line", pa.int64(), nullable=False)])
REFUSED_SCHEMA = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("line", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("row", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class RatingFile:
    """File of ratings with the options of the command line that say how to read it.

    form: one of `READERS`; None: guess from the first row. numbers, missing: see `Grader`. run_id: match only its
    outputs.
    """

    path: Path
    form: str | None = None
    column_map: Mapping[str, str] = field(default_factory=dict)
    rater: str | None = None
    numbers: Numbers = "auto"
    missing: tuple[str, ...] = ()
    run_id: str | None = None
    max_bad_rate: float = 0.01


@dataclass(frozen=True, slots=True)
class Placed:
    """A sheet with its position in the file."""

    sheet: Sheet
    source: str
    line: int
    text: str


@dataclass(slots=True)
class SheetReading:
    """Sheets read so far. refused: (source, line, reason, row)."""

    form: str | None
    unread: BadRows  # rows without any sheet; each counts as one refused sheet
    placed: list[Placed] = field(default_factory=list)
    refused: list[tuple[str, int, str, str]] = field(default_factory=list)
    left_out: LeftOut = field(default_factory=LeftOut)
    row_count: int = 0

    def refuse_row(self, raw: RawRow, reason: str, text: str) -> None:
        """Refuse a row that contains no sheet."""
        self.unread.add(raw, reason)
        self._hold(raw.source, raw.line, reason, text)

    def refuse(self, placed: Placed, reason: str) -> None:
        self._hold(placed.source, placed.line, reason, placed.text)

    def _hold(self, source: str, line: int, reason: str, text: str) -> None:
        self.refused.append((source, line, reason, text if len(self.refused) < MOST_REFUSED_TEXTS else ""))

    @property
    def sheet_count(self) -> int:
        """Number of sheets, good and bad."""
        return self.unread.count + len(self.placed)


def read_sheets(file: RatingFile, naming: Naming) -> SheetReading:
    is_csv, rows = read_rating_rows(file.path)
    if is_csv and file.form not in (None, "csv"):
        raise InputError(f"--format {file.form}", "a CSV file", "JSON or JSON Lines, or --format csv")
    if not is_csv and file.form == "csv":
        raise InputError("--format csv", "a JSON file", "CSV, or --format jsonl for a table in JSON Lines")
    unread = BadRows([file.path], file.max_bad_rate, lambda _raw, _reason: None)
    reading = SheetReading("csv" if is_csv else file.form, unread)
    for raw in rows:
        reading.row_count += 1
        _read_row(raw, naming, reading)
        if reading.sheet_count > MOST_SHEETS:
            message = f"found more than {MOST_SHEETS:,} sheets of ratings, expected fewer: split the file"
            raise RatingsError((Fault(raw.source, raw.line, message),))
        if reading.unread.is_hopeless:
            break
    if not reading.row_count:
        raise RatingsError((Fault(str(file.path), None, "found no ratings, expected at least one"),))
    return reading


def _read_row(raw: RawRow, naming: Naming, reading: SheetReading) -> None:
    text = raw.text[: 4 * MOST_ROW_CHARACTERS].decode(errors="ignore") if isinstance(raw.text, bytes) else raw.text
    row_text = (text or "")[:MOST_ROW_CHARACTERS].rstrip("\r\n")
    if isinstance(raw.content, str):
        reading.refuse_row(raw, raw.content, row_text)
        return
    if reading.form is None:
        reading.form = guess_format(raw.content, naming)
    try:
        sheets = READERS[reading.form](raw.content, naming, reading.left_out)
    except Misfit as misfit:
        reading.refuse_row(raw, str(misfit), row_text)
        return
    reading.placed += [Placed(sheet, raw.source, raw.line, row_text) for sheet in sheets]


@lru_cache(maxsize=10_000)  # several models answer each case
def _own_scales(criteria: str) -> Scales:
    """Scales of an output's per-case criteria."""
    return scales_of_row(read_case_criteria_text(criteria))


class Graded(NamedTuple):
    """Good sheets of a file. marks: as `GIVEN_SCHEMA`; steps: as `GIVEN_STEPS_SCHEMA`; claims: as
    `CLAIM_RATINGS_SCHEMA`; missing_count: of marks that do not apply.
    """

    marks: pa.Table
    steps: pa.Table
    claims: pa.Table
    missing_count: int


def claims_outputs(reading: SheetReading, matches: Matches) -> set[str]:
    """Outputs whose claims a file marks."""
    return {
        output_id
        for placed, output_id in zip(reading.placed, matches.output_ids, strict=True)
        if output_id is not None and any(mark.kind == "claims" for mark in placed.sheet.marks)
    }


def grade_sheets(
    reading: SheetReading,
    matches: Matches,
    scales: Scales,
    grader: Grader,
    claims: Container[tuple[str, str, str, str]] = (),
) -> Graded:
    """Marks of the good sheets; other sheets are refused.

    A mark that does not apply has no level and no score: it may retract the rater's earlier rating. claims: that runs
    found, see `known_claims_of`; a sheet with another one is refused.
    """
    found: list[tuple[Placed, str, list[tuple[Mark, Ladder]]]] = []
    for placed, output_id, fit_count in zip(reading.placed, matches.output_ids, matches.fit_counts, strict=True):
        fault = slot_fault(placed.sheet.slot, fit_count)
        if fault is not None or output_id is None:
            reading.refuse(placed, str(fault))
            continue
        own = _own_scales(matches.own_criteria[output_id]) if output_id in matches.own_criteria else None
        try:
            marks = _placeable(placed.sheet.marks, scales, reading.left_out)
            ladders = [(mark, _ladder(mark, scales, own)) for mark in marks]
            _refuse_repeated(ladders)
            _refuse_unknown_claims(output_id, ladders, claims)
        except Misfit as misfit:
            reading.refuse(placed, str(misfit))
            continue
        for mark, ladder in ladders:
            grader.show(mark, ladder)
        found.append((placed, output_id, ladders))
    rows: list[tuple[Any, ...]] = []
    steps: list[tuple[Any, ...]] = []
    claimed: list[tuple[Any, ...]] = []
    missing_count = 0
    for placed, output_id, ladders in found:
        try:
            rated = [grader.grade(mark, ladder, scales) for mark, ladder in ladders]
        except Misfit as misfit:
            reading.refuse(placed, str(misfit))
            continue
        missing_count += rated.count(None)
        given = [(each, ladder) for (_, ladder), each in zip(ladders, rated, strict=True) if each is not None]
        rows += _rating_rows(placed, output_id, given)
        steps += _step_rows(placed, output_id, given)
        claimed += _claim_rows(placed, output_id, ladders)
        rows += _missing_rows(
            placed, output_id, [ladder for (_, ladder), each in zip(ladders, rated, strict=True) if each is None]
        )
    reading.refused.sort(key=lambda refused: refused[1])
    return Graded(
        table_of(rows, GIVEN_SCHEMA),
        table_of(steps, GIVEN_STEPS_SCHEMA),
        table_of(claimed, CLAIM_RATINGS_SCHEMA),
        missing_count,
    )


def _placeable(marks: Sequence[Mark], scales: Scales, left_out: LeftOut) -> Sequence[Mark]:
    """Marks, with errors counted by criterion too where an import made such criteria.

    Without a running score beside others, if no criterion takes one: it must not cost the other ratings.
    """
    if scales.counts:
        is_stepwise = scales.trajectory is not None
        counted = [scales.counted(mark) if mark.kind == "running_score" else [] for mark in marks]
        others = [mark for mark in marks if mark.kind != "running_score" or is_stepwise]
        return [*others, *chain.from_iterable(counted)]
    if scales.trajectory is not None or len(marks) == 1:
        return marks
    scores = [mark for mark in marks if mark.kind == "running_score"]
    if any(mark.value for mark in scores):
        left_out.note("annotations, as no criterion takes a running score")
    return [mark for mark in marks if mark not in scores]


def _ladder(mark: Mark, scales: Scales, own: Scales | None) -> Ladder:
    """Ladder of a mark: the rubric's, else that of a per-case criterion. Raises `Misfit`."""
    is_own = own is not None and mark.kind != "running_score" and scales.find(mark.criterion, mark.scheme) is None
    return own.ladder_of(mark) if own is not None and is_own else scales.ladder_of(mark)


def _refuse_repeated(ladders: Iterable[tuple[Mark, Ladder]]) -> None:
    """Raise `Misfit` if a sheet names one criterion twice: choosing one mark would be a guess."""
    seen: set[str] = set()
    for mark, ladder in ladders:
        if ladder.name in seen:
            raise Misfit(f"{ladder.name}: found it twice (as {mark.place}), expected each criterion once")
        seen.add(ladder.name)


def _rating_rows(placed: Placed, output_id: str, rated: Sequence[tuple[Rated, Ladder]]) -> Iterable[tuple[Any, ...]]:
    """Rows of a sheet's ratings. Its notes go to its overall row, else to ratings without notes of their own."""
    sheet = placed.sheet
    has_overall = any(each.criterion_id == OVERALL for each, _ in rated)
    for each, ladder in rated:
        is_noted = not has_overall or each.criterion_id == OVERALL
        notes = each.notes or (sheet.notes if is_noted else None)
        row = (output_id, each.criterion_id, sheet.rater, each.level_id, each.score, notes, sheet.rated_at)
        yield (*row, placed.source, ladder.question_digest, placed.line)


def _step_rows(placed: Placed, output_id: str, rated: Sequence[tuple[Rated, Ladder]]) -> Iterable[tuple[Any, ...]]:
    """Rows of the steps that a sheet marks."""
    sheet = placed.sheet
    for each, ladder in rated:
        whose = (output_id, each.criterion_id, sheet.rater)
        yield from ((*whose, *mark, sheet.rated_at, placed.source, ladder.question_digest) for mark in each.steps)


def _claim_rows(placed: Placed, output_id: str, ladders: Iterable[tuple[Mark, Ladder]]) -> Iterable[tuple[Any, ...]]:
    """Rows of the claims that a sheet marks."""
    sheet = placed.sheet
    for mark, ladder in ladders:
        for each in mark.value if mark.kind == "claims" else ():
            whose = (output_id, ladder.name, sheet.rater)
            yield (*whose, *each, sheet.rated_at, placed.source, ladder.question_digest)


def _refuse_unknown_claims(
    output_id: str, ladders: Iterable[tuple[Mark, Ladder]], known: Container[tuple[str, str, str, str]]
) -> None:
    """Raise `Misfit` for a claim that no run of the lake found in the output: its verdict could not be compared."""
    for mark, ladder in ladders:
        for each in mark.value if mark.kind == "claims" else ():
            if (output_id, ladder.name, each.side, each.claim) not in known:
                found = f"claims: found {words_of(each.claim)} of the {each.side}"
                raise Misfit(f"{found}, expected a claim that a run of the lake found for {ladder.name}")


def _missing_rows(placed: Placed, output_id: str, ladders: Iterable[Ladder]) -> Iterable[tuple[Any, ...]]:
    """Rows of a sheet's marks that do not apply."""
    sheet = placed.sheet
    for ladder in ladders:
        row = (output_id, ladder.name, sheet.rater, None, None, None, sheet.rated_at)
        yield (*row, placed.source, ladder.question_digest, placed.line)


def table_of(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns: Iterable[Any] = zip(*rows, strict=True) if rows else ([] for _ in schema)
    return pa.table([pa.array(each, part.type) for each, part in zip(columns, schema, strict=True)], schema=schema)
