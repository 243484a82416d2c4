"""Rubric files on disk: lint them, import them from other systems' formats, export them."""

import os
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

from gradebook.rubrics.checks.registry import find_check
from gradebook.rubrics.files.dump import values_yaml
from gradebook.rubrics.files.load import parse_rubric, read_rubric, shipped_rubrics, shipped_text
from gradebook.rubrics.importers.case_rows import UNKNOWN_MODEL, join_answers
from gradebook.rubrics.importers.foreign_file import json_lines, read_json_lines
from gradebook.rubrics.importers.guessing import guess_format
from gradebook.rubrics.importers.metadata import FieldCounts, plain_number
from gradebook.rubrics.importers.registry import Exported, Imported, find_format, written_formats
from gradebook.rubrics.importers.results import is_answered
from gradebook.rubrics.importers.scale import OutputKey, annotate, output_key, with_choices, write_scale
from gradebook.rubrics.lint.findings import LintFinding
from gradebook.rubrics.lint.linting import lint_text
from gradebook.rubrics.lint.rules import CROWD, SAVE_RULES, THRESHOLDS, crowd_fault
from gradebook.rubrics.model.errors import Fault, InputError, RubricError
from gradebook.rubrics.model.functions import STAND_INS, is_within
from gradebook.rubrics.model.json_values import Row
from gradebook.rubrics.model.methods import CheckMethod, FunctionMethod
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
TIE = 0.5  # preference for neither output


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """Files that an import wrote. kept: unknown fields, now under metadata; unmatched: answers that fit no case."""

    written: tuple[Path, ...]
    criterion_count: int
    case_count: int
    rating_count: int
    choice_count: int
    needs: tuple[str, ...]
    kept: tuple[str, ...]
    unmatched: tuple[str, ...]
    findings: tuple[LintFinding, ...]
    format: str
    guessed_by: str | None = None  # sign of the format in the file; None: the format was named

    def as_json(self) -> dict[str, Any]:
        return {
            "format": self.format,
            "written": [str(path) for path in self.written],
            "criterion_count": self.criterion_count,
            "case_count": self.case_count,
            "rating_count": self.rating_count,
            "choice_count": self.choice_count,
            "needs": list(self.needs),
            "kept": list(self.kept),
            "unmatched": list(self.unmatched),
            "lint_finding_count": len(self.findings),
        }


def lint_rubrics(
    names: Sequence[str],
    lake: Lake,
    against: str | None = None,
    allows: Callable[[str], bool] = lambda _function: False,
) -> tuple[LintFinding, ...]:
    """Lint files and shipped rubrics, each compared with `against` or else with the lake's previous version.

    allows: whether a function may run. Raises `RubricError` for a missing file.
    """
    previous = None if against is None else find_rubric(against, lake)
    return tuple(finding for name in names for finding in _lint(name, lake, previous, allows))


def refuse_unfit(name: str, rubric: Rubric) -> None:
    """Raise `RubricError` for a file or a shipped rubric that can't be active: errors and findings of `SAVE_RULES`.

    Criteria are counted over all categories of a file.
    """
    if name in shipped_rubrics() or (is_path(name) and os.path.isfile(name)):  # noqa: PTH113 - as in _lint
        refuse_unfit_text(rubric, *rubric_text(name), is_shipped=name in shipped_rubrics())


def refuse_unfit_text(
    rubric: Rubric, text: str | bytes, path: str, folder: Path | None = None, *, is_shipped: bool = False
) -> None:
    """Raise as `refuse_unfit`, for a rubric and its text. path: for messages. is_shipped: allow more criteria."""
    rules = {*SAVE_RULES, *([THRESHOLDS] if rubric.require_thresholds else [])}
    findings = lint_text(text, path, folder=folder)
    blocking = [finding for finding in findings if finding.severity == "error" or finding.rule in rules]
    faults = [Fault(finding.path, finding.line, f"{finding.rule}: {finding.message}") for finding in blocking]
    if not is_shipped and (crowd := crowd_fault(rubric)) and not any(finding.rule == CROWD for finding in blocking):
        faults.append(Fault(path, None, f"{CROWD}: {crowd}"))
    if faults:
        raise RubricError(tuple(faults))


def _lint(name: str, lake: Lake, previous: Rubric | None, allows: Callable[[str], bool]) -> tuple[LintFinding, ...]:
    text, path, folder = rubric_text(name)
    before = previous or _previous(text, path, folder, lake)
    return lint_text(text, path, before, folder, allows, datetime.now(UTC).date())


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
    """Inputs that a run needs to score every criterion, see `Rubric.needs`; also the columns that checks read."""
    checks = [criterion.method.check for criterion in rubric.criteria if isinstance(criterion.method, CheckMethod)]
    columns = sorted({column for name in checks for column in find_check(name).columns} - {"output", *rubric.needs})
    return (*rubric.needs, *columns)


def import_file(
    format_name: str | None,
    file: Path,
    out: Path,
    answers: Path | None = None,
    *,
    model: str | None = None,
    is_forced: bool = False,
) -> ImportSummary:
    """Read a foreign file and write its parts: a rubric, rows of cases or outputs, ratings.

    format_name: None: found by the content. model: name of the model of outputs whose file names none.
    Raises `RubricError` with every fault of the file, `InputError` if `out` does not fit its parts. Nothing is written
    then.
    """
    text = _decoded(file)
    guessed = guess_format(text, str(file)) if format_name is None else None
    form = find_format(guessed.name if guessed else str(format_name))
    imported = form.read(text, str(file))
    imported = imported if model is None else _with_model(imported, model)
    cases, unmatched = imported.cases, cast("tuple[str, ...]", ())
    if answers is not None:
        cases, unmatched = join_answers(cases, [row for _, row in read_json_lines(_decoded(answers), str(answers))])
    texts = _file_texts(imported, cases, out)
    findings = _lint_import(texts)
    for path in texts:
        refuse_taken(path, is_forced=is_forced)
    for path, text in texts.items():
        write_new(path, text, is_forced=is_forced)
    own_count = sum(len(row.get("criteria") or ()) for row in cases)
    rubrics = [Rubric.model_validate(rubric) for rubric in imported.rubrics]
    rated = {row["criterion_id"] for row in imported.ratings}
    rubric_count = sum(len(rubric.criteria) for rubric in rubrics)
    return ImportSummary(
        tuple(texts),
        rubric_count + own_count,
        len(cases),
        len(imported.ratings),
        len(imported.choices),
        tuple(dict.fromkeys(chain.from_iterable(_sources_of(rubric, rated) for rubric in rubrics))),
        imported.kept,
        unmatched,
        findings,
        form.name,
        guessed.sign if guessed else None,
    )


def _sources_of(rubric: Rubric, rated: Container[str]) -> Iterator[str]:
    """Sentences on the sources of scores other than checks, with their criteria; none if a judge at most is needed.

    rated: criteria whose ratings the file has.
    """
    sources: dict[str, list[str]] = {}
    for criterion in rubric.criteria:
        method = criterion.method
        if isinstance(method, FunctionMethod):
            is_made = is_within(method.function.partition(":")[0], STAND_INS)
            sources.setdefault("a function for" if is_made else "the function of", []).append(criterion.id)
        elif method.type == "ratings" and criterion.id not in rated:
            sources.setdefault("people's ratings of", []).append(criterion.id)
        elif method.type == "similarity":
            sources.setdefault("an embedder for", []).append(criterion.id)
    if sources and "judge" in rubric.needs:
        yield "a judge"
    yield from (f"{source} {', '.join(names)}" for source, names in sources.items())
    if sources and (columns := [name for name in needs_of(rubric) if name in ("reference", "context")]):
        yield f"the columns {' and '.join(columns)}"


def _with_model(imported: Imported, model: str) -> Imported:
    """Name the model of outputs that have none, and of their ratings."""
    if not model.strip():
        raise InputError("--model", repr(model), "a name")

    def with_model(rows: Sequence[Row]) -> tuple[Row, ...]:
        return tuple({**row, "model": model} if row.get("model") == UNKNOWN_MODEL else row for row in rows)

    return replace(imported, cases=with_model(imported.cases), ratings=with_model(imported.ratings))


def _file_texts(imported: Imported, cases: Sequence[Row], out: Path) -> dict[Path, str]:
    """Text of each file to write, by path."""
    texts = {
        **{
            f"{rubric['id']}.yaml" if imported.others else "rubric.yaml": values_yaml(rubric)
            for rubric in imported.rubrics
        },
        "outputs.jsonl": json_lines(row for row in cases if is_answered(row)),
        "cases.jsonl": json_lines(row for row in cases if not is_answered(row)),
        "ratings.jsonl": json_lines(imported.ratings),
    }
    files = {name: text for name, text in texts.items() if text}
    # A folder may be named v1.2. Path raises an error for a name that is too long.
    if os.path.isdir(out) or not out.suffix[1:].isalpha():  # noqa: PTH112
        return {out / name: text for name, text in files.items()}
    suffixes = RUBRIC_SUFFIXES if imported.rubrics else ROW_SUFFIXES
    if len(files) > 1 or out.suffix not in suffixes:
        file = "" if len(files) > 1 else f", or a file that ends in {suffixes[0]}"
        raise InputError("--out", f"the file {out}", f"a folder for {', '.join(files)}{file}")
    return {out: next(iter(files.values()))}


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

    run_id: run whose ratings, verdicts and choices between outputs become annotations (Scale tasks only).
    """
    form = find_format(format_name)
    if run_id is not None and form.name != "scale":
        raise InputError("--run", f"the format {form.name}", "--format scale")
    if form.write is None:
        raise InputError("--format", f"{form.name}, which is only read", f"one of {', '.join(written_formats())}")
    if form.source == "rubric":
        rubric = find_rubric(source, lake)
        if not rubric.criteria:
            raise RubricError((Fault(source, None, "found a rubric without criteria, expected some to export"),))
        return form.write(cast("Any", rubric))
    if not Path(source).exists():
        refused = f"{source}, which is no file" if "." in source else f"{source}, a rubric"
        expected = "a file of rows with criteria of their own: the format has cases"
        raise InputError(f"--format {form.name}", refused, expected)
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
    keys = {
        output_key(row)
        for row in values
        if "output" in row and output_key(row) in marks and texts[output_key(row)] in (None, row["output"])
    }
    if not keys:
        raise InputError("--run", f"no output of {source} in the run {run_id}", "the run that evaluated this file")
    annotated, dropped = annotate(values, {key: marks[key] for key in keys})
    exported = write_scale(with_choices(annotated, _choices_of_run(lake, run_id, {key[0] for key in keys}, dropped)))
    return Exported(exported.text, (*exported.lost, *dropped.words()))


def _choices_of_run(lake: Lake, run_id: str, cases: Container[str], dropped: FieldCounts) -> dict[str, Row | None]:
    """Preferred response of each case by its last rater: the model with most wins; a tie counts as half a win.

    None if two models have most wins. dropped: counts cases with further raters or no best response.
    """
    choices: dict[str, Row | None] = {}
    with connect_up_to_date(lake) as connection:
        rows = read_rows(connection, query("rubric_store/run_choices"), run_id=run_id)
    for case_id, group in groupby((row for row in rows if row["case_id"] in cases), itemgetter("case_id")):
        of_case = list(group)
        last_rater_rows = [row for row in of_case if row["rater"] == of_case[0]["rater"]]
        if len(last_rater_rows) < len(of_case):
            dropped.note("choices of further raters (the last rater's is written)")
        wins: Counter[str] = Counter()
        for row in last_rater_rows:
            is_tie, is_b = row["score"] == TIE, row["score"] > TIE
            wins.update({row["model_a"]: 1 if is_tie else 2 * (not is_b), row["model_b"]: 1 if is_tie else 2 * is_b})
        (best, most), *runners_up = wins.most_common()
        if runners_up and runners_up[0][1] == most:
            dropped.note("choices without a best response")
            choices[case_id] = None
            continue
        notes = dict.fromkeys(
            row["notes"] for row in last_rater_rows if row["notes"] and best in (row["model_a"], row["model_b"])
        )
        likert = next((row["likert_value"] for row in last_rater_rows if row["likert_value"] is not None), None)
        choices[case_id] = {
            "model": best,
            "notes": "\n".join(notes) or None,
            "likert_value": None if likert is None else plain_number(likert),
        }
    return choices


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
            marks_of_output = marks.setdefault(output_key(row), {})
            if row["criterion_id"] is not None:
                marks_of_output[row["criterion_id"], row["rater"]] = row["level_id"]
    return marks, texts


def write_new(path: Path, text: str, *, is_forced: bool = False) -> None:
    """Write a new file atomically. Raises `InputError` if it exists."""
    refuse_taken(path, is_forced=is_forced)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    except (OSError, ValueError) as error:  # an empty name is a ValueError
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"--out: can't write {path}: {reason}") from error


def refuse_taken(path: Path, *, is_forced: bool) -> None:
    """Raise `InputError` for a file that exists, unless it may be replaced."""
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
