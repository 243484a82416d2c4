"""Criteria drafted for each case of a file, written as the rows of the file with a column `criteria`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from gradebook.rubrics.learning.case_drafts import CASE_INSTRUCTIONS, FEWEST, ProposedCase, read_case
from gradebook.rubrics.learning.proposals import Dropped
from gradebook.rubrics.model.errors import Fault, InputError, OutputsError
from gradebook.rubrics.model.json_values import digest_of
from gradebook.rubrics.model.outputs import Output
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.datasets.discovery import dataset_files, digest_files, read_rows
from gradebook.tasks.datasets.file_formats import RawRow
from gradebook.tasks.datasets.row_parser import RowFitter
from gradebook.tasks.judging.settings.judge import Judge
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.learning.asking import Asking, Forecast, ObjectQuestion, Tally, open_asking
from gradebook.tasks.learning.draft import cut_text

MOST_ROWS = 20_000
MOST_TEXT = 8_000  # characters that a request shows of a prompt, a reference and a context each
CASE_TOKENS = 3_000
_REQUIRED = ("case_id", "prompt")


@dataclass(frozen=True, slots=True)
class CaseDraftRequest:
    """Request for criteria of each case. source: file, folder or glob of prompts or outputs."""

    source: str
    notes: str | None = None
    budget_usd: float | None = None
    column_map: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CasesDrafted:
    """Rows with their criteria. text: JSON Lines; None if no criterion was accepted. counts: criteria of each case."""

    text: str | None
    counts: Mapping[str, int]
    dropped: tuple[Dropped, ...]
    notes: tuple[str, ...]
    tally: Tally


@dataclass(frozen=True, slots=True)
class _Row:
    content: dict[str, Any]
    output: Output


def price_cases(request: CaseDraftRequest, judge: Judge, lake: Lake) -> Forecast:
    """Price of the criteria of all cases; nothing is asked or written."""
    rows = _read(request)
    with open_asking(judge, lake, _task(request, judge), request.budget_usd, is_preview=True) as asking:
        return asking.price([*_questions(request, rows, asking).values()])


def draft_cases(request: CaseDraftRequest, judge: Judge, lake: Lake) -> CasesDrafted:
    """Draft criteria of each case. Raises as `draft_rubric`."""
    rows = _read(request)
    with open_asking(judge, lake, _task(request, judge), request.budget_usd) as asking:
        questions = _questions(request, rows, asking)
        asking.planned_usd = asking.price([*questions.values()]).cost_high_usd
        answers = dict(zip(questions, asking.ask([*questions.values()], "draft"), strict=True))
    criteria: dict[str, list[dict[str, Any]]] = {}
    dropped: list[Dropped] = []
    for case_id, output in _cases(rows).items():
        value = answers[case_id].value
        criteria[case_id] = []
        if value is None:
            dropped.append(Dropped(f"case {case_id}", f"no readable reply: {answers[case_id].reason}"))
            continue
        texts = [text for text in (output.prompt, *(output.context or ())) if text]
        criteria[case_id], refused = read_case(value, case_id, output.reference, texts)
        dropped += refused
    few = [case_id for case_id, accepted in criteria.items() if len(accepted) < FEWEST]
    notes = [f"fewer than {FEWEST} criteria: {counted(len(few), 'case')}, such as {few[0]}"] if few else []
    lines = [
        row.content | ({"criteria": case_criteria} if (case_criteria := criteria[row.output.case_id]) else {})
        for row in rows
    ]
    json_lines = b"".join(orjson.dumps(line, default=str, option=orjson.OPT_APPEND_NEWLINE) for line in lines)
    counts = {case_id: len(accepted) for case_id, accepted in criteria.items()}
    text = json_lines.decode() if any(counts.values()) else None
    return CasesDrafted(text, counts, tuple(dropped), tuple(notes), asking.tally)


def _task(request: CaseDraftRequest, judge: Judge) -> str:
    inputs = f"{request.notes} {sorted(request.column_map.items())} {judge.judge_digest}"
    return f"cases-{digest_of(f'{digest_files(dataset_files(request.source))} {inputs}')}"


def _read(request: CaseDraftRequest) -> list[_Row]:
    """Rows of the file, with a prompt each. Raises `OutputsError` for rows that do not fit or have criteria already."""
    files, names = dataset_files(request.source), request.column_map
    fitter = RowFitter(names, is_unscored_allowed=True)
    placeholders = {names.get("model", "model"): "model", names.get("output", "output"): ""}
    rows: list[_Row] = []
    faults: list[Fault] = []
    for raw in read_rows(files, names, _REQUIRED):
        fitted = _fit(fitter, raw, placeholders)
        if isinstance(fitted, str):
            faults.append(Fault(raw.source, raw.line, fitted))
        elif isinstance(raw.content, dict):
            rows.append(_Row(raw.content, fitted))
        if len(faults) == 20:
            break
        if len(rows) > MOST_ROWS:
            raise InputError(request.source, f"more than {MOST_ROWS:,} rows", "a file with fewer")
    if faults:
        raise OutputsError(tuple(faults))
    if not rows:
        raise InputError(request.source, "no rows", "cases with a prompt each")
    return rows


def _fit(fitter: RowFitter, raw: RawRow, missing: Mapping[str, str]) -> Output | str:
    if isinstance(raw.content, str):
        return raw.content
    fitted = fitter.fit(dict(missing) | raw.content, raw.format)
    if isinstance(fitted, str):
        return fitted
    if not fitted.prompt:
        return "prompt: found nothing, expected text or a list of chat messages"
    return "criteria: found some, expected none: drafted ones would replace them" if fitted.criteria else fitted


def _cases(rows: Sequence[_Row]) -> dict[str, Output]:
    """First output of each case."""
    cases: dict[str, Output] = {}
    for row in rows:
        cases.setdefault(row.output.case_id, row.output)
    return cases


def _questions(
    request: CaseDraftRequest, rows: Sequence[_Row], asking: Asking
) -> dict[str, ObjectQuestion[ProposedCase]]:
    """Request for the criteria of each case, by its id."""
    questions = {}
    for case_id, output in _cases(rows).items():
        texts = {
            "prompt": output.prompt,
            "reference": output.reference,
            "context": "\n\n".join(output.context) if output.context else None,
            "notes": request.notes,
        }
        material = {name: cut_text(text, MOST_TEXT) for name, text in texts.items() if text}
        questions[case_id] = asking.object_question(
            "case_criteria", ProposedCase, CASE_INSTRUCTIONS, material, max_tokens=CASE_TOKENS
        )
    return questions


def refuse_case_file(out: Path) -> None:
    """Raise `InputError` unless a name is that of JSON Lines."""
    if out.suffix != ".jsonl":
        raise InputError("--out", repr(str(out)), "a file name that ends in .jsonl, as --per-case writes rows")
