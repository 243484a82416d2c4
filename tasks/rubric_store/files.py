"""Rubric files on disk: lint them, import them from other systems' formats, export them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from gradebook.rubrics.checks.registry import find_check
from gradebook.rubrics.files.dump import values_yaml
from gradebook.rubrics.files.load import parse_rubric, read_rubric, shipped_rubrics, shipped_text
from gradebook.rubrics.importers.interfaces import Exported, Imported
from gradebook.rubrics.importers.join_answers import join_answers
from gradebook.rubrics.importers.json_lines import json_lines, read_json_lines
from gradebook.rubrics.importers.registry import find_format
from gradebook.rubrics.importers.scale.exporting import write_scale
from gradebook.rubrics.importers.scale.marking import OutputKey, annotate, output_key
from gradebook.rubrics.lint.findings import LintFinding
from gradebook.rubrics.lint.linting import lint_text
from gradebook.rubrics.model.errors import Fault, InputError, RubricError
from gradebook.rubrics.model.methods import CheckMethod
from gradebook.rubrics.model.rows import Row
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.text.named_files import is_path
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import read_published_run, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.rubric_store.questions import add_questions_of_run
from gradebook.tasks.rubric_store.versions import find_rubric, version_before
from gradebook.tasks.system.files import write_text

RUBRIC_SUFFIXES = (".yaml", ".yml")
ROW_SUFFIXES = (".jsonl",)


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """Files that an import wrote. kept: foreign fields, now under metadata; unmatched: answers that fit no case."""

    written: tuple[Path, ...]
    criterion_count: int
    case_count: int
    rating_count: int
    kept: tuple[str, ...]
    unmatched: tuple[str, ...]
    findings: tuple[LintFinding, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "written": [str(path) for path in self.written],
            "criterion_count": self.criterion_count,
            "case_count": self.case_count,
            "rating_count": self.rating_count,
            "kept": list(self.kept),
            "unmatched": list(self.unmatched),
            "lint_finding_count": len(self.findings),
        }


def lint_rubrics(names: Sequence[str], lake: Lake, against: str | None = None) -> tuple[LintFinding, ...]:
    """Lint files and shipped rubrics, each compared with `against` or else with the lake's previous version.

    Raises `RubricError` for a missing file.
    """
    previous = None if against is None else find_rubric(against, lake)
    return tuple(finding for name in names for finding in _lint(name, lake, previous))


def refuse_lint_errors(name: str) -> None:
    """Raise `RubricError` with the errors of lint, if a file or a shipped rubric has any."""
    if name in shipped_rubrics() or (is_path(name) and os.path.isfile(name)):  # noqa: PTH113 - as in _lint
        text, shown, folder = rubric_text(name)
        found = [each for each in lint_text(text, shown, folder=folder) if each.severity == "error"]
        if found:
            raise RubricError(tuple(Fault(each.path, each.line, f"{each.rule}: {each.message}") for each in found))


def _lint(name: str, lake: Lake, previous: Rubric | None) -> tuple[LintFinding, ...]:
    text, shown, folder = rubric_text(name)
    return lint_text(text, shown, previous or _previous(text, shown, folder, lake), folder)


def rubric_text(name: str) -> tuple[bytes, str, Path | None]:
    """Text of a rubric file or a shipped rubric, its name for messages, and its folder."""
    path = Path(name)
    if is_path(name) and os.path.isfile(name):  # noqa: PTH113 - Path raises where a name is too long
        return _read(path), name, path.parent
    if name in shipped_rubrics():
        return *shipped_text(name), None
    read_rubric(name)  # raises with the list of shipped rubrics
    raise InputError(name, "no file", "one")


def _previous(text: bytes, path: str, folder: Path | None, lake: Lake) -> Rubric | None:
    """Version that the lake stores before this one; None if there is none, or the file can't be parsed."""
    try:
        return version_before(lake, parse_rubric(text, path, folder))
    except RubricError:  # the lint reports its faults
        return None


def describe_shipped(name: str) -> Row:
    """Summary row of a shipped rubric."""
    rubric = read_rubric(name)
    return {
        "name": name,
        "version": rubric.version,
        "target_type": rubric.target_type,
        "criteria": len(rubric.criteria),
        "methods": ", ".join(sorted({criterion.method.type for criterion in rubric.criteria})),
        "needs": ", ".join(needs_of(rubric)),
        "description": rubric.description,
    }


def needs_of(rubric: Rubric) -> tuple[str, ...]:
    """Needs of a run that scores every criterion, see `Rubric.needs`; with the columns that checks read."""
    named = [each.method.check for each in rubric.criteria if isinstance(each.method, CheckMethod)]
    columns = sorted({column for name in named for column in find_check(name).columns} - {"output", *rubric.needs})
    return (*rubric.needs, *columns)


def import_file(
    format_name: str, file: Path, out: Path, answers: Path | None = None, *, is_forced: bool = False
) -> ImportSummary:
    """Read a foreign file and write its parts: a rubric, rows of cases or outputs, ratings.

    Raises `RubricError` with every fault of the file, `InputError` if `out` does not fit its parts. Nothing is written
    then.
    """
    imported = find_format(format_name).read(_decoded(file), str(file))
    cases, unmatched = imported.cases, cast("tuple[str, ...]", ())
    if answers is not None:
        cases, unmatched = join_answers(cases, [row for _, row in read_json_lines(_decoded(answers), str(answers))])
    texts = _parts(imported, cases, out)
    findings = _lint_import(texts)
    for path in texts:
        _refuse_taken(path, is_forced=is_forced)
    for path, text in texts.items():
        write_new(path, text, is_forced=is_forced)
    own_count = sum(len(row.get("criteria") or ()) for row in cases)
    rubric_count = sum(len(rubric["criteria"]) for rubric in imported.rubrics)
    return ImportSummary(
        tuple(texts), rubric_count + own_count, len(cases), len(imported.ratings), imported.kept, unmatched, findings
    )


def _parts(imported: Imported, cases: Sequence[Row], out: Path) -> dict[Path, str]:
    """Text of each file to write, by path."""
    texts = {
        **{
            f"{rubric['id']}.yaml" if imported.others else "rubric.yaml": values_yaml(rubric)
            for rubric in imported.rubrics
        },
        "outputs.jsonl": json_lines(row for row in cases if "output" in row),
        "cases.jsonl": json_lines(row for row in cases if "output" not in row),
        "ratings.jsonl": json_lines(imported.ratings),
    }
    parts = {name: text for name, text in texts.items() if text}
    # A new folder may be named v1.2. Path raises where a name is too long.
    if os.path.isdir(out) or not out.suffix[1:].isalpha():  # noqa: PTH112
        return {out / name: text for name, text in parts.items()}
    suffixes = RUBRIC_SUFFIXES if imported.rubrics else ROW_SUFFIXES
    if len(parts) > 1 or out.suffix not in suffixes:
        file = "" if len(parts) > 1 else f", or a file that ends in {suffixes[0]}"
        raise InputError("--out", f"the file {out}", f"a folder for {', '.join(parts)}{file}")
    return {out: next(iter(parts.values()))}


def _lint_import(texts: dict[Path, str]) -> tuple[LintFinding, ...]:
    """Lint the imported rubrics; raises for a rubric that gradebook itself would refuse."""
    findings: list[LintFinding] = []
    for path, text in texts.items():
        if path.suffix in RUBRIC_SUFFIXES:
            parse_rubric(text, str(path))
            findings += lint_text(text, str(path))
    return tuple(findings)


def export_source(format_name: str, source: str, lake: Lake, run_id: str | None = None) -> Exported:
    """Export a rubric, or a file of rows with per-case criteria, to a foreign format. Raises `RubricError`.

    run_id: run whose ratings and verdicts become annotations (Scale tasks only).
    """
    form = find_format(format_name)
    if run_id is not None and form.name != "scale":
        raise InputError("--run", f"the format {form.name}", "--format scale")
    if form.source == "rubric":
        rubric = find_rubric(source, lake)
        if not rubric.criteria:
            raise RubricError((Fault(source, None, "found a rubric without criteria, expected some to export"),))
        return form.write(cast("Any", rubric))
    if not Path(source).exists():
        given = f"{source}, which is no file" if "." in source else f"{source}, a rubric"
        expected = "a file of rows with criteria of their own: the format has cases"
        raise InputError(f"--format {form.name}", given, expected)
    rows = read_json_lines(_decoded(Path(source)), source)
    bare = [number for number, row in rows if not isinstance(row.get("criteria"), list)]
    if bare:
        message = "found a row without criteria of its own, expected some"
        raise RubricError(tuple(Fault(source, number, message) for number in bare))
    values = [row for _, row in rows]
    if run_id is None:
        return form.write(cast("Any", values))
    write_scale(values)  # raises if the rows are not those of an import
    marks, texts = _marks_of_run(lake, run_id)
    found = {
        output_key(row)
        for row in values
        if "output" in row and output_key(row) in marks and texts[output_key(row)] in (None, row["output"])
    }
    if not found:
        raise InputError("--run", f"no output of {source} in the run {run_id}", "the run that evaluated this file")
    annotated, lost = annotate(values, {key: marks[key] for key in found})
    exported = write_scale(annotated)
    return Exported(exported.text, (*exported.lost, *lost.words()))


def _marks_of_run(
    lake: Lake, run_id: str
) -> tuple[dict[OutputKey, dict[tuple[str, str], str | None]], dict[OutputKey, str | None]]:
    """Marks of each output of a run, and the outputs' texts."""
    marks: dict[OutputKey, dict[tuple[str, str], str | None]] = {}
    texts: dict[OutputKey, str | None] = {}
    with connect_up_to_date(lake) as connection:
        run = read_published_run(connection, lake, run_id, option="--run")
        add_questions_of_run(connection, run_id, "ratings")
        for row in read_rows(connection, query("rubric_store/run_marks"), run_id=run["run_id"]):
            texts[output_key(row)] = row["output"]
            own = marks.setdefault(output_key(row), {})
            if row["criterion_id"] is not None:
                own[row["criterion_id"], row["rater"]] = row["level_id"]
    return marks, texts


def write_new(path: Path, text: str, *, is_forced: bool = False) -> None:
    """Write a new file atomically. Raises `InputError` if it exists."""
    _refuse_taken(path, is_forced=is_forced)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    except (OSError, ValueError) as error:  # an empty name is a ValueError
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"--out: can't write {path}: {reason}") from error


def _refuse_taken(path: Path, *, is_forced: bool) -> None:
    if os.path.exists(path) and not is_forced:  # noqa: PTH110 - Path raises where a name is too long
        raise InputError("--out", f"{path} already there", "a new file (or --force)")


def _decoded(path: Path) -> str:
    content = _read(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = f"found the byte 0x{content[error.start]:02x}, expected text in UTF-8"
        raise RubricError((Fault(str(path), line, message),)) from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RubricError((Fault(str(path), None, f"can't be read ({reason}), expected a file"),)) from None
