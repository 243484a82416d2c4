"""Import of people's ratings from another system's file. Imported ratings never replace verdicts."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.importers.ratings.grading import Grader, Scales, scales_of_rubric
from gradebook.rubrics.importers.ratings.registry import READERS
from gradebook.rubrics.importers.ratings.sheets import Naming, map_fault
from gradebook.rubrics.model.errors import MOST_FAULTS_SHOWN, Fault, InputError, RatingsError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit, connect, prepare_lake
from gradebook.tasks.lake.schema import is_up_to_date
from gradebook.tasks.ratings.import_sheets import (
    REFUSED_SCHEMA,
    RatingFile,
    SheetReading,
    claims_outputs,
    grade_sheets,
    match_slots,
    read_sheets,
    table_of,
)
from gradebook.tasks.ratings.pairs import (
    count_new_preferences,
    imported_choices,
    insert_preferences,
    preferences_of_runs,
)
from gradebook.tasks.ratings.tables import (
    count_new_ratings,
    count_new_refused,
    drop_taken_back,
    insert_claim_ratings,
    insert_ratings,
    insert_refused,
    insert_step_ratings,
    known_claims_of,
    new_claim_ratings,
    new_step_ratings,
)


@dataclass(frozen=True, slots=True)
class RatingImport:
    """Result of an import. A sheet is one rater's ratings of one output, imported whole or refused.

    rating_count: ratings of the good sheets, without those retracted later in the file; new_count: those that the lake
    did not have, or not as the latest. step_count, claim_count: marks of single steps and of claims in the good sheets.
    choice_count: preferences for one output over another, in each run of both, of which new_choice_count are new.
    missing_count: marks "not applicable"; taken_back_count: those of them that retract a rating of the lake. numbers:
    how the numbers of each criterion were interpreted. version: of the lake; None if nothing was written.
    """

    file: str
    form: str
    is_guessed: bool
    row_count: int
    sheet_count: int
    bad_count: int
    rating_count: int
    new_count: int
    missing_count: int
    step_count: int
    claim_count: int
    choice_count: int
    new_choice_count: int
    taken_back_count: int
    rater_count: int
    output_count: int
    criteria: Mapping[str, int]
    numbers: Mapping[str, str]
    left_out: tuple[str, ...]
    faults: tuple[str, ...]
    version: int | None = None

    def as_json(self) -> dict[str, Any]:
        """The import as `--json` prints it."""
        return {("format" if name == "form" else name): value for name, value in asdict(self).items()}


def import_ratings(lake: Lake, rubric: Rubric, file: RatingFile, *, is_dry: bool = False) -> RatingImport:
    """Import a file's ratings into the lake in one transaction; importing the file again adds nothing.

    Misfits go to the quarantine with line and reason. is_dry: report the result without writing. Raises `RatingsError`
    if the file can't be read, has no rating of the rubric's criteria, or a larger share than max_bad_rate does not fit;
    `LakeError` if there is no lake; `InputError` for wrong settings. Nothing is written then.
    """
    _refuse_bad_settings(file)
    scales = scales_of_rubric(rubric)
    naming = Naming(file.column_map, file.rater, _criterion_names(rubric, scales))
    reading = read_sheets(file, naming)
    grader = Grader(file.numbers, file.missing)
    with connect(lake, read_only=True) as connection:
        matches = match_slots(connection, [file_sheet.sheet.slot for file_sheet in reading.sheets], file.run_id)
        known_claims = known_claims_of(connection, claims_outputs(reading, matches))
        marks, steps, claims, missing_count = grade_sheets(reading, matches, scales, grader, known_claims)
        latest_marks = drop_taken_back(marks)
        ratings = latest_marks.filter(pc.is_valid(latest_marks.column("score")))
        refused = table_of(reading.refused, REFUSED_SCHEMA)
        sheets = [
            (file_sheet.sheet, output_id)
            for file_sheet, output_id in zip(reading.sheets, matches.output_ids, strict=True)
        ]
        choices, unplaced_count = imported_choices(connection, sheets, file.run_id)
        choices = pa.concat_tables([choices, *preferences_of_runs(connection, ratings)])
        for _ in range(unplaced_count):
            reading.left_out.note("choices between outputs that no run published together")
        _raise_if_too_many(file, reading, marks.num_rows + choices.num_rows)
        new_count, taken_back_count, new_refused_count = _count_new(connection, latest_marks, refused)
        is_old_lake = not is_up_to_date(connection)
        new_step_count = steps.num_rows if is_old_lake else new_step_ratings(connection, steps).num_rows
        new_choice_count = choices.num_rows if is_old_lake else count_new_preferences(connection, choices)
        new_claim_count = claims.num_rows if is_old_lake else new_claim_ratings(connection, claims).num_rows
    version = None
    other_new_count = new_refused_count + new_step_count + new_claim_count + new_choice_count
    if not is_dry and new_count + taken_back_count + other_new_count:
        if is_old_lake:
            prepare_lake(lake)
        new_count, taken_back_count, version = _publish(lake, file, latest_marks, steps, claims, choices, refused)
    return RatingImport(
        file=str(file.path),
        form=str(reading.form),
        is_guessed=file.form is None,
        row_count=reading.row_count,
        sheet_count=reading.sheet_count,
        bad_count=refused.num_rows,
        rating_count=ratings.num_rows,
        new_count=new_count,
        missing_count=missing_count,
        step_count=steps.num_rows,
        claim_count=claims.num_rows,
        choice_count=choices.num_rows,
        new_choice_count=new_choice_count,
        taken_back_count=taken_back_count,
        rater_count=len(ratings.column("rater").unique()),
        output_count=len(ratings.column("output_id").unique()),
        criteria=dict(Counter(ratings.column("criterion_id").to_pylist())),
        numbers=grader.meanings,
        left_out=reading.left_out.words(),
        faults=tuple(f"{source}:{line}: {reason}" for source, line, reason, _ in reading.refused[:MOST_FAULTS_SHOWN]),
        version=version,
    )


def _refuse_bad_settings(file: RatingFile) -> None:
    if fault := map_fault(file.column_map):
        raise InputError(fault)
    if not 0 <= file.max_bad_rate <= 1:
        raise InputError("--max-bad-rate", f"{file.max_bad_rate:g}", "a share of 0 to 1")
    if file.rater is not None and not file.rater.strip():
        raise InputError("--rater", "an empty text", "a name")
    if file.form is not None and file.form not in READERS:
        raise InputError("--format", f"{file.form!r}", f"one of {', '.join(READERS)}")


def _criterion_names(rubric: Rubric, scales: Scales) -> Callable[[str], bool]:
    """Predicate of columns that may be criteria: the rubric's, or any if outputs have per-case criteria."""
    return (lambda name: scales.find(name) is not None) if rubric.criteria else (lambda _name: True)


def _raise_if_too_many(file: RatingFile, reading: SheetReading, mark_count: int) -> None:
    """Raise `RatingsError` if too many sheets are refused, or the file rates none of the rubric's criteria."""
    bad_count = len(reading.refused)
    faults = [Fault(source, line, reason) for source, line, reason, _ in reading.refused[: MOST_FAULTS_SHOWN - 1]]
    if bad_count and bad_count / reading.sheet_count > file.max_bad_rate:
        bad_sheets = f"found {bad_count} of {reading.sheet_count} sheets of ratings that do not fit"
        message = f"{bad_sheets}, expected at most a share of {file.max_bad_rate:g} (--max-bad-rate)"
        raise RatingsError((Fault(str(file.path), None, message), *faults))
    if not mark_count:
        left_out = "; ".join(reading.left_out.words()[:MOST_FAULTS_SHOWN]) or "nothing"
        message = f"found no rating of a criterion (format {reading.form}; left out: {left_out}), expected at least one"
        raise RatingsError((Fault(str(file.path), None, message), *faults))


def _count_new(connection: duckdb.DuckDBPyConnection, marks: pa.Table, refused: pa.Table) -> tuple[int, int, int]:
    """Counts of new ratings, of retracted ratings and of new refused rows."""
    connection.register("given_ratings", marks)
    connection.register("refused_rows", refused)
    return *count_new_ratings(connection, "given_ratings"), count_new_refused(connection, "refused_rows")


def _publish(
    lake: Lake,
    file: RatingFile,
    marks: pa.Table,
    steps: pa.Table,
    claims: pa.Table,
    choices: pa.Table,
    refused: pa.Table,
) -> tuple[int, int, int]:
    """Add new rows in one transaction; returns the counts of new and retracted ratings, and the lake's version."""
    new_count, taken_back_count = 0, 0

    def insert_new(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        nonlocal new_count, taken_back_count
        connection.register("given_ratings", marks)
        connection.register("refused_rows", refused)
        new_count, taken_back_count = count_new_ratings(connection, "given_ratings")
        insert_ratings(connection, "given_ratings")
        insert_step_ratings(connection, steps)
        insert_claim_ratings(connection, claims)
        insert_preferences(connection, choices)
        insert_refused(connection, "refused_rows")

    version = commit(lake, f"import ratings of {file.path.name}", insert_new)
    return new_count, taken_back_count, version
