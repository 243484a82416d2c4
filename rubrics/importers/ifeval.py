"""IFEval: prompts with instructions that a program can verify, a strict and a loose check each."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from gradebook.rubrics.checks.ifeval.keywords import Detector
from gradebook.rubrics.importers.case_rows import (
    Answered,
    Case,
    CaseId,
    CaseShape,
    NonBlank,
    criterion_row,
    export_cases,
    import_cases,
    prompt_text,
)
from gradebook.rubrics.importers.foreign_file import json_lines
from gradebook.rubrics.importers.ids import DistinctIds
from gradebook.rubrics.importers.metadata import FieldCounts, as_metadata
from gradebook.rubrics.importers.registry import Exported, Format, Imported
from gradebook.rubrics.model.errors import ModelFault
from gradebook.rubrics.model.json_values import Row, drop_none
from gradebook.rubrics.model.methods import CheckMethod
from gradebook.rubrics.text.wording import counted

# Shorter than the limit of a criterion's id: a repeated id gets a number at its end, a loose check's id a prefix.
_NAME = r"[A-Za-z][A-Za-z0-9_.:-]{0,53}"
_ID = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,59}")
_LOOSE = "loose."
_LANGUAGE = ("language:response_language", "change_case:english_capital", "change_case:english_lowercase")
_DETECTOR = "detector"  # setting of these checks, and gradebook's own field of a line
_PLAIN_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")


class _Example(Answered, CaseShape):
    key: CaseId
    prompt: NonBlank
    instruction_id_list: Annotated[list[Annotated[str, Field(pattern=f"^{_NAME}$")]], Field(min_length=1)]
    kwargs: list[dict[str, Any]]
    detector: Detector | None = None  # gradebook's own field: detector of checks that detect a language

    @model_validator(mode="after")
    def _kwargs_an_instruction(self) -> Self:
        kwargs_count, instruction_count = len(self.kwargs), len(self.instruction_id_list)
        if kwargs_count != instruction_count:
            entries = counted(kwargs_count, "entry", "entries")
            raise ModelFault("invalid", f"found {entries}, expected {instruction_count}: one per instruction", "kwargs")
        return self

    @property
    def identity(self) -> tuple[str | None, Any]:
        return self.key, None

    def columns(self, stored_fields: FieldCounts) -> Row:
        extra = stored_fields.note_all("", self.unknown_keys_with(*self.unanswered))
        ids = DistinctIds(fitting=_ID, mark=".")
        detector = drop_none({_DETECTOR: self.detector})
        pairs = zip(self.instruction_id_list, self.kwargs, strict=True)
        strict = [
            _criterion(ids.take(name), name, drop_none(kwargs) | (detector if name in _LANGUAGE else {}))
            for name, kwargs in pairs
        ]
        criteria = [*strict, *(_loose_twin(criterion, ids.take(f"{_LOOSE}{criterion['id']}")) for criterion in strict)]
        return {**self.answer_columns, "prompt": self.prompt, "criteria": criteria, **as_metadata("ifeval", extra)}


def _loose_twin(strict: Row, criterion_id: str) -> Row:
    """Criterion of the same instruction in loose mode, with weight 0: the score is that of the strict checks."""
    return {**strict, "id": criterion_id, "weight": 0, "method": {**strict["method"], "mode": "loose"}}


def _criterion(criterion_id: str, instruction: str, settings: Row) -> Row:
    method = {"type": "check", "check": instruction, "settings": settings}
    return criterion_row(criterion_id, _description(instruction, settings), "ifeval", {}, method=method)


def _description(instruction: str, settings: Row) -> str:
    """Describe an instruction: "length_constraints:number_words", {num_words: 300} -> "Length constraints: number words
    (num_words 300)".
    """
    words = instruction.replace("_", " ").replace(":", ": ").capitalize()
    return f"{words} ({', '.join(f'{name} {value}' for name, value in settings.items())})" if settings else words


def read_ifeval(text: str, path: str) -> Imported:
    """Import cases with two criteria per instruction, strict and loose. Raises `RubricError` with every fault.

    The existence of the checks is tested when a run begins, not here.
    """
    return import_cases(text, path, _Example)


def write_ifeval(rows: Sequence[Row]) -> Exported:
    """Write JSON Lines with the instructions of each case, and its answer if there is one. Raises `RubricError`."""
    return export_cases(rows, lambda cases: json_lines(_line(case) for case in cases), read_ifeval)


def _line(case: Case) -> Row:
    methods = [criterion.method for criterion in case.criteria if isinstance(criterion.method, CheckMethod)]
    checks = [method for method in methods if method.mode == "strict"]
    detectors = [method.settings[_DETECTOR] for method in checks if _DETECTOR in method.settings]
    return {
        **case.kept("ifeval"),
        "key": int(case.case_id) if _PLAIN_NUMBER.fullmatch(case.case_id) else case.case_id,
        "prompt": prompt_text(case.prompt),
        "instruction_id_list": [method.check for method in checks],
        "kwargs": [{name: value for name, value in method.settings.items() if name != _DETECTOR} for method in checks],
        **drop_none({"model": case.model, "response": case.output, _DETECTOR: next(iter(detectors), None)}),
    }


SUMMARY = "prompts with instructions that a program can verify"
FORMAT = Format("ifeval", SUMMARY, ".jsonl", "cases", read_ifeval, write_ifeval)
