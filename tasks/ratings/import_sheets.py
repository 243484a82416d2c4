"""Rating sheets of another system's file (JSON Lines, a JSON list or object, CSV): read with bounds, matched to outputs
of the lake, graded by the rubric's ladders, or refused.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from gradebook.rubrics.files.case_criteria import read_case_criteria_text
from gradebook.rubrics.importers.foreign_file import json_fault, read_json
from gradebook.rubrics.importers.ratings.grading import Grader, Ladder, Numbers, Rated, Scales, scales_of_row
from gradebook.rubrics.importers.ratings.registry import READERS, guess_format
from gradebook.rubrics.importers.ratings.sheets import LeftOut, Mark, Misfit, Naming, Sheet, Slot, shown_value
from gradebook.rubrics.model.errors import Fault, InputError, OutputsError, RatingsError, RubricError
from gradebook.rubrics.model.outputs import describe_value
from gradebook.rubrics.model.rubric import OVERALL
from gradebook.tasks.datasets.decompression import BUFFER_BYTES, open_decompressed, value_fault
from gradebook.tasks.datasets.file_formats import BadRows, Encoding, RawRow, encoding_of, read_format
from gradebook.tasks.lake.sql import query
from gradebook.tasks.ratings.evaluation_file import RATING_SCHEMA
from gradebook.tasks.ratings.tables import CLAIM_RATINGS_SCHEMA, GIVEN_STEPS_SCHEMA

MOST_VALUES = 5_000_000  # of such a file
MOST_BYTES = 2**28  # of a JSON file other than JSON Lines, decompressed: it is read whole
_HEAD_BYTES = 2**20
_BOM = b"\xef\xbb\xbf"
_SPACE = re.compile(r"[ \t\r\n]*")
_SUFFIXES = ".jsonl, .json or .csv, alone or with .gz or .zst"


def read_rating_rows(path: Path) -> tuple[bool, Iterator[RawRow]]:
    """Whether the file is CSV, and its rows. Both raise `RatingsError` if the file as a whole can't be read."""
    encoding = encoding_of(path)
    if encoding is None or encoding.format == "parquet":
        raise _fatal(path, None, f"found the suffix {path.suffix or 'none'}, expected ratings: {_SUFFIXES}")
    if not os.path.isfile(path):  # noqa: PTH113 - Path raises where a name is too long
        raise _fatal(path, None, "found no such file, expected a file of ratings")
    if encoding.format == "csv":
        return True, _translate_errors(read_format(path, encoding, _repeated_columns))
    if _is_lines(path, encoding):
        return False, _translate_errors(map(_parsed_strictly, read_format(path, encoding, lambda *_: ())))
    return False, _translate_errors(_whole_rows(path, encoding))


def _translate_errors(rows: Iterable[RawRow]) -> Iterator[RawRow]:
    """Yield the rows, raising faults of the whole file as `RatingsError`."""
    try:
        yield from rows
    except OutputsError as error:
        raise RatingsError(error.faults) from error


def _fatal(path: Path, line: int | None, message: str) -> RatingsError:
    return RatingsError((Fault(str(path), line, message),))


def _repeated_columns(path: str, line: int | None, columns: Iterable[str]) -> tuple[Fault, ...]:
    repeated = sorted(name for name, count in Counter(columns).items() if count > 1)
    return tuple(Fault(path, line, f"found the column {name} twice, expected it once") for name in repeated)


def _read(path: Path, encoding: Encoding, byte_count: int) -> bytes:
    """First bytes of a file, decompressed."""
    try:
        with open_decompressed(path, encoding.compression) as stream:
            content = bytearray()
            # In pieces: one read of `byte_count` takes as much memory, whatever the size of the file.
            while chunk := stream.read(min(BUFFER_BYTES, byte_count - len(content))):
                content += chunk
            return bytes(content)
    except OutputsError as error:
        raise RatingsError(error.faults) from None
    except OSError as error:
        raise _fatal(path, None, f"found a file that can't be read ({error}), expected ratings") from error


def _is_lines(path: Path, encoding: Encoding) -> bool:
    """Whether the file is JSON Lines: its first line is a whole object."""
    first = _read(path, encoding, _HEAD_BYTES).removeprefix(_BOM).lstrip().partition(b"\n")
    return not first[0] or (first[0].startswith(b"{") and (not first[1] or first[0].rstrip().endswith(b"}")))


def _parsed_strictly(raw: RawRow) -> RawRow:
    """Parse a row again strictly: a repeated key or an oversized number makes it a bad row."""
    if isinstance(raw.content, str) or raw.text is None:
        return raw
    text = raw.text.decode() if isinstance(raw.text, bytes) else raw.text
    return _parsed(raw.source, raw.line, text)


def _parsed(source: str, line: int, text: str) -> RawRow:
    try:
        content = read_json(text, source, line)
    except RubricError as error:
        return RawRow(source, line, "jsonl", "; ".join(fault.message for fault in error.faults[:3]), text)
    if not isinstance(content, dict):
        content = f"found {describe_value(content)}, expected one JSON object"
    return RawRow(source, line, "jsonl", content, text)


def _whole_rows(path: Path, encoding: Encoding) -> Iterator[RawRow]:
    """Entries of a JSON list, or objects that span several lines each."""
    content = _read(path, encoding, MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise _fatal(path, None, f"found more than {MOST_BYTES} bytes in one JSON value, expected JSON Lines")
    if (fault := value_fault(content, MOST_VALUES)) is not None:
        raise _fatal(path, None, f"{fault}, or JSON Lines")
    try:
        text = content.removeprefix(_BOM).decode()
    except UnicodeDecodeError as error:
        message = f"found the byte 0x{content[error.start]:02x} at byte {error.start + 1}, expected UTF-8 text"
        raise _fatal(path, None, message) from error
    line, before = 1, 0
    for begin, end in _entries(path, text):
        line += text.count("\n", before, begin)
        before = begin
        yield _parsed(str(path), line, text[begin:end])


def _entries(path: Path, text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each entry: items of a list, else consecutive values."""
    position = _skip(text, 0)
    is_list = text.startswith("[", position)
    position = _skip(text, position + 1) if is_list else position
    while position < len(text) and not (is_list and text.startswith("]", position)):
        end = _value_end(path, text, position)
        yield position, end
        position = _skip(text, end)
        if is_list and text.startswith(",", position):
            position = _skip(text, position + 1)
        elif is_list and not text.startswith("]", position):
            raise _fatal(
                path, _line(text, position), "found no comma behind an entry, expected a comma or the list's end"
            )
    if is_list and (position >= len(text) or _skip(text, position + 1) < len(text)):
        what = "the file's end within" if position >= len(text) else "something behind"
        raise _fatal(path, _line(text, position), f"found {what} the list, expected its end and nothing more")


def _value_end(path: Path, text: str, start: int) -> int:
    # Only the end is needed: each entry is parsed strictly later.
    try:
        return json.JSONDecoder(parse_int=str, parse_float=str).raw_decode(text, start)[1]
    except json.JSONDecodeError as error:
        fault_position, reason = json_fault(error)
        raise _fatal(path, _line(text, fault_position), reason) from None
    except RecursionError:
        message = "found a nesting without measure, expected a finite one"
        raise _fatal(path, _line(text, start), message) from None


def _skip(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return space.end() if space else position


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


SLOT_SCHEMA = pa.schema(
    [
        pa.field("sheet", pa.int64(), nullable=False),
        pa.field("output_id", pa.string()),
        pa.field("case_id", pa.string()),
        pa.field("model", pa.string()),
        pa.field("checkpoint", pa.string()),
        pa.field("sample_index", pa.int32()),
        pa.field("name", pa.string()),
    ]
)
_SLOT_COLUMNS = SLOT_SCHEMA.names[1:]


@dataclass(frozen=True, slots=True)
class Matches:
    """Matches of sheets. output_ids: (sheet,), None where fit_counts is 0; fit_counts: (sheet,), matching outputs.

    own_criteria: per-case criteria by output, as JSON text.
    """

    output_ids: list[str | None]
    fit_counts: list[int]
    own_criteria: dict[str, str]


def match_slots(connection: duckdb.DuckDBPyConnection, slots: Sequence[Slot], run_id: str | None) -> Matches:
    """Find the output of each slot in the lake or in one run. Raises `InputError` for an unknown run."""
    if run_id is not None:
        _refuse_unknown_run(connection, run_id)
    columns = {name: [getattr(slot, name) for slot in slots] for name in _SLOT_COLUMNS}
    connection.register("sheets", pa.table({"sheet": range(len(slots)), **columns}, schema=SLOT_SCHEMA))
    matches = connection.execute(query("ratings/matched_sheets"), {"run_id": run_id}).to_arrow_table()
    output_ids = matches.column("output_id")
    connection.register("matched_outputs", pa.table({"output_id": output_ids.unique().drop_null()}))
    own_criteria = connection.execute(
        "select output_id, criteria from outputs "
        "where criteria is not null and output_id in (select output_id from matched_outputs)"
    ).fetchall()
    for name in ("sheets", "matched_outputs"):
        connection.unregister(name)
    return Matches(output_ids.to_pylist(), matches.column("fit_count").to_pylist(), dict(own_criteria))


def slot_fault(slot: Slot, fit_count: int) -> str | None:
    """Fault of a slot that matches no output, or several; None if it matches one."""
    if fit_count == 1:
        return None
    columns = [(name, getattr(slot, name)) for name in (*_SLOT_COLUMNS[:-1], "name") if getattr(slot, name) is not None]
    slot_text = ", ".join(f"{'trace_id' if name == 'name' else name} {value}" for name, value in columns)
    if not fit_count:
        return f"{slot_text}: found no such output in the lake, expected one that a run published"
    expected = "expected one: name model, checkpoint and sample_index or output_id, or give --run"
    return f"{slot_text}: found {fit_count} outputs, {expected}"


def _refuse_unknown_run(connection: duckdb.DuckDBPyConnection, run_id: str) -> None:
    row = connection.execute("select status from runs where run_id = ?", [run_id]).fetchone()
    if row is None or row[0] != "published":
        state = "no such run" if row is None else f"a run that is {row[0]}"
        raise InputError(f"--run {run_id}", state, "one that `gradebook runs` lists as published")


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
class FileSheet:
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
    sheets: list[FileSheet] = field(default_factory=list)
    refused: list[tuple[str, int, str, str]] = field(default_factory=list)
    left_out: LeftOut = field(default_factory=LeftOut)
    row_count: int = 0

    def refuse_row(self, raw: RawRow, reason: str, text: str) -> None:
        """Refuse a row that contains no sheet."""
        self.unread.add(raw, reason)
        self._add_refused(raw.source, raw.line, reason, text)

    def refuse(self, file_sheet: FileSheet, reason: str) -> None:
        self._add_refused(file_sheet.source, file_sheet.line, reason, file_sheet.text)

    def _add_refused(self, source: str, line: int, reason: str, text: str) -> None:
        self.refused.append((source, line, reason, text if len(self.refused) < MOST_REFUSED_TEXTS else ""))

    @property
    def sheet_count(self) -> int:
        """Number of sheets, good and bad."""
        return self.unread.count + len(self.sheets)


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
    reading.sheets += [FileSheet(sheet, raw.source, raw.line, row_text) for sheet in sheets]


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
        for file_sheet, output_id in zip(reading.sheets, matches.output_ids, strict=True)
        if output_id is not None and any(mark.kind == "claims" for mark in file_sheet.sheet.marks)
    }


def grade_sheets(
    reading: SheetReading,
    matches: Matches,
    scales: Scales,
    grader: Grader,
    claims: Container[tuple[str, str, str, str]] = (),
) -> Graded:
    """Marks of the good sheets; other sheets are refused.

    A mark that does not apply has no level and no score: it may retract the rater's earlier rating. claims: known
    claims, see `known_claims_of`; a sheet with another claim is refused.
    """
    matched: list[tuple[FileSheet, str, list[tuple[Mark, Ladder]]]] = []
    for file_sheet, output_id, fit_count in zip(reading.sheets, matches.output_ids, matches.fit_counts, strict=True):
        fault = slot_fault(file_sheet.sheet.slot, fit_count)
        if fault is not None or output_id is None:
            reading.refuse(file_sheet, str(fault))
            continue
        own_scales = _own_scales(matches.own_criteria[output_id]) if output_id in matches.own_criteria else None
        try:
            marks = _gradable(file_sheet.sheet.marks, scales, reading.left_out)
            ladders = [(mark, _ladder(mark, scales, own_scales)) for mark in marks]
            _refuse_repeated(ladders)
            _refuse_unknown_claims(output_id, ladders, claims)
        except Misfit as misfit:
            reading.refuse(file_sheet, str(misfit))
            continue
        for mark, ladder in ladders:
            grader.show(mark, ladder)
        matched.append((file_sheet, output_id, ladders))
    rows: list[tuple[Any, ...]] = []
    steps: list[tuple[Any, ...]] = []
    claim_rows: list[tuple[Any, ...]] = []
    missing_count = 0
    for file_sheet, output_id, ladders in matched:
        try:
            ratings = [grader.grade(mark, ladder, scales) for mark, ladder in ladders]
        except Misfit as misfit:
            reading.refuse(file_sheet, str(misfit))
            continue
        missing_count += ratings.count(None)
        _note_lost_notes(file_sheet.sheet, ladders, ratings, reading.left_out)
        graded = [(rating, ladder) for (_, ladder), rating in zip(ladders, ratings, strict=True) if rating is not None]
        rows += _rating_rows(file_sheet, output_id, graded)
        steps += _step_rows(file_sheet, output_id, graded)
        claim_rows += _claim_rows(file_sheet, output_id, ladders)
        rows += _missing_rows(
            file_sheet,
            output_id,
            [ladder for (_, ladder), rating in zip(ladders, ratings, strict=True) if rating is None],
        )
    reading.refused.sort(key=lambda refused: refused[1])
    return Graded(
        table_of(rows, GIVEN_SCHEMA),
        table_of(steps, GIVEN_STEPS_SCHEMA),
        table_of(claim_rows, CLAIM_RATINGS_SCHEMA),
        missing_count,
    )


def _gradable(marks: Sequence[Mark], scales: Scales, left_out: LeftOut) -> Sequence[Mark]:
    """Marks that can be graded, with counts of errors where an import made criteria for them.

    A running score that no criterion takes is left out if the sheet has other marks: it must not cost them.
    """
    if scales.counts:
        is_stepwise = scales.trajectory is not None
        counted = [scales.counted(mark) if mark.kind == "running_score" else [] for mark in marks]
        without_scores = [mark for mark in marks if mark.kind != "running_score" or is_stepwise]
        return [*without_scores, *chain.from_iterable(counted)]
    if scales.trajectory is not None or len(marks) == 1:
        return marks
    scores = [mark for mark in marks if mark.kind == "running_score"]
    if any(mark.value for mark in scores):
        left_out.note("annotations, as no criterion takes a running score")
    return [mark for mark in marks if mark not in scores]


def _ladder(mark: Mark, scales: Scales, own_scales: Scales | None) -> Ladder:
    """Ladder of a mark: the rubric's, else that of a per-case criterion. Raises `Misfit`."""
    is_own = (
        own_scales is not None and mark.kind != "running_score" and scales.find(mark.criterion, mark.scheme) is None
    )
    return own_scales.ladder_of(mark) if own_scales is not None and is_own else scales.ladder_of(mark)


def _refuse_repeated(ladders: Iterable[tuple[Mark, Ladder]]) -> None:
    """Raise `Misfit` if a sheet names one criterion twice: choosing one mark would be a guess."""
    names: set[str] = set()
    for mark, ladder in ladders:
        if ladder.name in names:
            raise Misfit(f"{ladder.name}: found it twice (as {mark.place}), expected each criterion once")
        names.add(ladder.name)


def _rating_rows(
    file_sheet: FileSheet, output_id: str, rated: Sequence[tuple[Rated, Ladder]]
) -> Iterable[tuple[Any, ...]]:
    """Rows of a sheet's ratings. Its notes go to its overall row, else to ratings without notes of their own."""
    sheet = file_sheet.sheet
    has_overall = any(rating.criterion_id == OVERALL for rating, _ in rated)
    for rating, ladder in rated:
        is_noted = not has_overall or rating.criterion_id == OVERALL
        notes = rating.notes or (sheet.notes if is_noted else None)
        row = (output_id, rating.criterion_id, sheet.rater, rating.level_id, rating.score, notes, sheet.rated_at)
        yield (*row, file_sheet.source, ladder.question_digest, file_sheet.line)


def _step_rows(
    file_sheet: FileSheet, output_id: str, rated: Sequence[tuple[Rated, Ladder]]
) -> Iterable[tuple[Any, ...]]:
    """Rows of the steps that a sheet marks."""
    sheet = file_sheet.sheet
    for rating, ladder in rated:
        key = (output_id, rating.criterion_id, sheet.rater)
        yield from ((*key, *mark, sheet.rated_at, file_sheet.source, ladder.question_digest) for mark in rating.steps)


def _claim_rows(
    file_sheet: FileSheet, output_id: str, ladders: Iterable[tuple[Mark, Ladder]]
) -> Iterable[tuple[Any, ...]]:
    """Rows of the claims that a sheet marks."""
    sheet = file_sheet.sheet
    for mark, ladder in ladders:
        for claim_mark in mark.value if mark.kind == "claims" else ():
            key = (output_id, ladder.name, sheet.rater)
            yield (*key, *claim_mark, sheet.rated_at, file_sheet.source, ladder.question_digest)


def _refuse_unknown_claims(
    output_id: str, ladders: Iterable[tuple[Mark, Ladder]], known_claims: Container[tuple[str, str, str, str]]
) -> None:
    """Raise `Misfit` for a claim that no run of the lake found in the output: its verdict could not be compared."""
    for mark, ladder in ladders:
        for claim_mark in mark.value if mark.kind == "claims" else ():
            if (output_id, ladder.name, claim_mark.side, claim_mark.claim) not in known_claims:
                claim = f"claims: found {shown_value(claim_mark.claim)} of the {claim_mark.side}"
                raise Misfit(f"{claim}, expected a claim that a run of the lake found for {ladder.name}")


def _note_lost_notes(
    sheet: Sheet, ladders: Sequence[tuple[Mark, Ladder]], ratings: Sequence[Rated | None], left_out: LeftOut
) -> None:
    """Count notes that have no rating to be stored with: of marks that do not apply, and of sheets with no others."""
    if sheet.notes and ratings and not any(ratings):
        left_out.note("notes of sheets on which no criterion applies")
    for (mark, _), rating in zip(ladders, ratings, strict=True):
        if rating is None and mark.notes:
            left_out.note("notes of criteria that do not apply")


def _missing_rows(file_sheet: FileSheet, output_id: str, ladders: Iterable[Ladder]) -> Iterable[tuple[Any, ...]]:
    """Rows of a sheet's marks that do not apply."""
    sheet = file_sheet.sheet
    for ladder in ladders:
        row = (output_id, ladder.name, sheet.rater, None, None, None, sheet.rated_at)
        yield (*row, file_sheet.source, ladder.question_digest, file_sheet.line)


def table_of(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns: Iterable[Any] = zip(*rows, strict=True) if rows else ([] for _ in schema)
    return pa.table(
        [pa.array(column, schema_field.type) for column, schema_field in zip(columns, schema, strict=True)],
        schema=schema,
    )
