"""Join of cases with the answers of a second file, by id or prompt."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import BeforeValidator

from gradebook.rubrics.importers.case_rows import (
    ANSWER_COLUMNS,
    Answered,
    CaseId,
    Prompt,
    SampleIndex,
    number_samples,
    prompt_key,
)
from gradebook.rubrics.importers.foreign_file import Reading, each_row
from gradebook.rubrics.importers.metadata import given
from gradebook.rubrics.model.levels import number_as_text
from gradebook.rubrics.model.rows import Row

_OWNED = ("model", "output", "checkpoint", "sample_index")
_ID_COLUMNS = ("case_id", "prompt_id", "key", "id")


class _Answer(Answered):
    case_id: CaseId | None = None
    prompt_id: CaseId | None = None
    key: CaseId | None = None
    id: CaseId | None = None
    prompt: Prompt | None = None
    checkpoint: Annotated[str, BeforeValidator(number_as_text)] | None = None
    sample_index: SampleIndex | None = None

    @property
    def ids(self) -> list[str]:
        return [name for column in _ID_COLUMNS if (name := getattr(self, column)) is not None]

    @property
    def words(self) -> str:
        return f" ({self.ids[0]!r})" if self.ids else ""


def join_answers(cases: Sequence[Row], answers: Sequence[Row]) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    """Join the cases with the answers of another file. Returns also, in words, the answers and cases without a match.

    An answer belongs to the case of its `case_id`, `prompt_id`, `key` or `id`, else to each case with an equal prompt.
    A case gets one row per answer; one without any is unchanged. Other columns of an answer are stored as
    `metadata.answer`. Raises `RubricError` for an entry that is not an answer.
    """
    shaped = _shape_answers(answers)
    firsts: dict[str, Row] = {}
    for case in cases:
        firsts.setdefault(str(case["case_id"]), case)
    by_prompt: dict[str, list[str]] = {}
    for case_id, case in firsts.items():
        if case.get("prompt") is not None:
            by_prompt.setdefault(prompt_key(case["prompt"]), []).append(case_id)
    joined: dict[str, list[Row]] = {case_id: [] for case_id in firsts}
    unmatched = []
    for number, answer in enumerate(shaped, start=1):
        matches = _matches(answer, firsts, by_prompt)
        for case_id in matches:
            joined[case_id].append(_answered(firsts[case_id], answer))
        if not matches:
            unmatched.append(f"answer {number}{answer.words}: no case has its id or prompt")
    rows = _in_order(cases, joined)
    unmatched += [f"case {row['case_id']!r}: no answer" for row in rows if "output" not in row]
    return number_samples(rows), tuple(unmatched)


def _shape_answers(answers: Sequence[Row]) -> list[_Answer]:
    whole = Reading("the answers", answers)
    shaped = []
    for entry in each_row(whole):
        answer = entry.fit(_Answer, entry.value)
        if answer and not answer.answer_columns:
            entry.note((), f"found no answer, expected one of {', '.join(ANSWER_COLUMNS)}")
        shaped += [answer] if answer else []
    whole.stop_at_faults()
    return shaped


def _matches(answer: _Answer, firsts: dict[str, Row], by_prompt: dict[str, list[str]]) -> list[str]:
    """Cases of an answer. An id counts only if the prompts, when both exist, are equal."""
    key = None if answer.prompt is None else prompt_key(answer.prompt)
    for case_id in answer.ids:
        if case_id in firsts and key in (None, prompt_key(firsts[case_id].get("prompt") or answer.prompt)):
            return [case_id]
    return [] if key is None else by_prompt.get(key, [])


def _answered(case: Row, answer: _Answer) -> Row:
    """Row for an answer: the case without the data of another answer, with this one."""
    row = {name: value for name, value in case.items() if name not in _OWNED} | answer.answer_columns
    row |= given({"checkpoint": answer.checkpoint, "sample_index": answer.sample_index})
    return {**row, "metadata": {**(row.get("metadata") or {}), "answer": answer.left}} if answer.left else row


def _in_order(cases: Sequence[Row], joined: dict[str, list[Row]]) -> list[Row]:
    """Put each case's answers after its own rows, or in place of rows without an output."""
    rows: list[Row] = []
    last = {str(case["case_id"]): index for index, case in enumerate(cases)}
    for index, case in enumerate(cases):
        case_id = str(case["case_id"])
        if "output" in case or not joined[case_id]:
            rows.append(case)
        if last[case_id] == index:
            rows += joined[case_id]
    return rows
