"""Prometheus: an instruction, a response, a reference and a criterion with a description for each score from 1 to 5."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import AliasChoices, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from gradebook.rubrics.importers.case_rows import (
    Case,
    CaseId,
    CaseShape,
    NonBlank,
    answer_columns,
    criterion_row,
    export_cases,
    prompt_text,
    read_cases,
)
from gradebook.rubrics.importers.foreign_file import OpenMapping, indented_json
from gradebook.rubrics.importers.metadata import FieldCounts, as_metadata, drop_empty, imported_metadata
from gradebook.rubrics.importers.registry import Exported, Format, Imported
from gradebook.rubrics.model.errors import ModelFault
from gradebook.rubrics.model.json_values import Row, drop_none

SCORES = range(1, 6)
_SCORE_LINE = re.compile(r"^Score ([0-9]+):[ \t]*", re.MULTILINE)
_HEADING = re.compile(
    r"^###(Task Description|The instruction to evaluate|Response to evaluate|Reference Answer \(Score 5\)"
    r"|Score Rubrics|Feedback):?[ \t]*$",
    re.MULTILINE,
)
_PROMPT_START = "###The instruction to evaluate"
# Sections of a complete judge prompt, in order, with the name of the equivalent field.
_SECTIONS = {
    "Task Description": "task_description",
    "The instruction to evaluate": "instruction",
    "Response to evaluate": "response",
    "Reference Answer (Score 5)": "reference_answer",
    "Score Rubrics": "score_rubric",
    "Feedback": "feedback",
}
_SCORED = ("gpt4_score", "gpt4_feedback")
_NEEDED = ("The instruction to evaluate", "Response to evaluate", "Score Rubrics")


def _rubric_of_text(value: Any) -> Any:
    """Parse a rubric written as text: the criterion, optionally in brackets, then one line per score."""
    if not isinstance(value, str):
        return value
    criteria, *pieces = _SCORE_LINE.split(value)
    scores = dict(zip(pieces[::2], pieces[1::2], strict=True))
    if sorted(pieces[::2]) != [str(score) for score in SCORES]:
        actual = ", ".join(f"'Score {score}:'" for score in pieces[::2]) or "no 'Score 1:'"
        raise ValueError(f"found {actual}, expected a line for each score from 1 to 5")
    criteria = criteria.strip()
    if criteria.startswith("[") and criteria.endswith("]"):
        criteria = criteria[1:-1].strip()
    return {"criteria": criteria, **{f"score{score}_description": scores[str(score)].strip() for score in SCORES}}


class _ScoreRubric(OpenMapping):
    criteria: NonBlank
    score1_description: NonBlank
    score2_description: NonBlank
    score3_description: NonBlank
    score4_description: NonBlank
    score5_description: NonBlank

    @property
    def points(self) -> dict[str, str]:
        """Description of each point."""
        return {str(score): getattr(self, f"score{score}_description") for score in SCORES}


_Score = Annotated[int, Field(ge=SCORES[0], le=SCORES[-1])]


# Prefixes of columns `..._score` that are no rater's scores.
_NO_RATERS = frozenset({"max", "min", "mean", "avg", "average", "total", "sum"})


def _as_score(value: Any) -> int | None:
    """A whole number from 1 to 5, also written as 4.0; None for anything else."""
    return int(value) if type(value) in (int, float) and value in SCORES else None


def _listed_scores(value: Any) -> Any:
    """Scores as a list of whole numbers, also from a single score or 4.0; other values unchanged."""
    listed = [value] if isinstance(value, int | float) else value
    return [_as_score(score) or score for score in listed] if isinstance(listed, list) else listed


class _Example(CaseShape):
    has_own_prompts: ClassVar[bool] = True  # in a second turn each model sees its own first answer

    case_id: Annotated[CaseId | None, Field(validation_alias=AliasChoices("case_id", "id", "prompt_id", "idx"))] = None
    instruction: Annotated[NonBlank, Field(validation_alias=AliasChoices("instruction", "input"))]
    system_prompt: str | None = None
    response: str | None = None
    reference_answer: str | None = None
    score_rubric: Annotated[_ScoreRubric, BeforeValidator(_rubric_of_text)]
    model: Annotated[
        NonBlank | None, Field(validation_alias=AliasChoices("response_source", "model", "model_name"))
    ] = None
    gpt4_score: Annotated[list[_Score] | None, BeforeValidator(_listed_scores)] = None
    gpt4_feedback: list[str] | None = None

    @model_validator(mode="before")
    @classmethod
    def _unfold(cls, value: Any) -> Any:
        """Split an instruction that is a complete judge prompt into fields, one per section."""
        prompt = value.get("instruction") if isinstance(value, dict) else None
        if not isinstance(prompt, str) or not prompt.startswith("###") or _PROMPT_START not in prompt:
            return value
        head, *sections = _HEADING.split(prompt)
        names = sections[::2]
        fields = {_SECTIONS[name]: part.strip() for name, part in zip(names, sections[1::2], strict=True)}
        wrong = ["text before the first part"] if head.strip() else []
        wrong += [f"no '###{name}'" for name in _NEEDED if name not in names]
        wrong += [f"'###{name}' {count} times" for name, count in Counter(names).items() if count > 1]
        wrong += [f"{field!r} beside a judge prompt" for field in fields if field != "instruction" and field in value]
        if wrong:
            raise ModelFault("invalid", f"found {', '.join(wrong)}, expected each part once", "instruction")
        return {**value, **fields}

    @field_validator("gpt4_feedback")
    @classmethod
    def _one_a_score(cls, value: list[str] | None, row: ValidationInfo) -> list[str] | None:
        count = len(row.data.get("gpt4_score") or ())
        if value and len(value) != count and "gpt4_score" in row.data:
            raise ValueError(f"found {len(value)} entries, expected one for each of the {count} scores")
        return value

    @property
    def prompt(self) -> Any:
        """Prompt: the instruction, preceded by BiGGen's system prompt, if any."""
        if not (self.system_prompt or "").strip():
            return self.instruction
        return [{"role": "system", "content": self.system_prompt}, {"role": "user", "content": self.instruction}]

    @property
    def marks(self) -> list[tuple[str, int, str]]:
        """(rater, score, note) of each score; BiGGen has scores by several judges and by people."""
        scores, feedback = self.gpt4_score or [], self.gpt4_feedback or []
        marks = [(f"gpt4_{n}", score, feedback[n - 1] if feedback else "") for n, score in enumerate(scores, start=1)]
        raters = {
            name.removesuffix("_score"): value for name, value in self.unknown_keys.items() if name.endswith("_score")
        }
        return marks + [
            (rater, score, "")
            for rater, value in raters.items()
            if rater not in _NO_RATERS and (score := _as_score(value)) is not None
        ]

    @property
    def identity(self) -> tuple[str | None, Any]:
        rubric = self.score_rubric
        return self.case_id, [self.prompt, self.reference_answer, rubric.criteria, rubric.points]

    def columns(self, stored_fields: FieldCounts) -> Row:
        answer, rubric = answer_columns(self.model, self.response), self.score_rubric
        extra = stored_fields.note_all("", self.unknown_keys_with(*(() if answer else ("model", *_SCORED))))
        # Scores and feedback become ratings; they are stored here too, for the export.
        extra |= drop_none({name: getattr(self, name) for name in _SCORED})
        extra |= drop_none({"system_prompt": self.system_prompt})
        scale = {"min": SCORES[0], "max": SCORES[-1], "points": rubric.points}
        rubric_left = stored_fields.note_all("score_rubric.", rubric.unknown_keys)
        return {
            **answer,
            **drop_none({"prompt": self.prompt, "reference": self.reference_answer}),
            "criteria": [criterion_row("score", rubric.criteria, "prometheus", rubric_left, scale=scale)],
            **as_metadata("prometheus", extra),
        }


def read_prometheus(text: str, path: str) -> Imported:
    """Import cases with the criterion `score` on a scale from 1 to 5. Raises `RubricError` with every fault.

    `gpt4_score` becomes ratings by gpt4_1, gpt4_2, ...; any other score, such as `human_score`, a rating by `human`.
    """
    stored_fields = FieldCounts()
    examples = read_cases(text, path, _Example, stored_fields)
    ratings = [rating for row, case in examples for rating in _ratings(row, case)]
    return Imported(cases=tuple(case for _, case in examples), ratings=tuple(ratings), kept=stored_fields.words())


def _ratings(row: _Example, case: Row) -> Iterable[Row]:
    """One rating per score, with the columns of its output's row; none without an output."""
    if "output" not in case:
        return
    key_columns: Row = {"case_id": case["case_id"], "model": case["model"], "sample_index": case.get("sample_index", 0)}
    for rater, score, note in row.marks:
        rating = {**key_columns, "criterion_id": "score", "rater": rater, "level_id": str(score)}
        yield {**rating, **drop_empty({"notes": note})}


def write_prometheus(rows: Sequence[Row]) -> Exported:
    """Write a JSON list with one entry per output, or per case without answers. Raises `RubricError`."""
    return export_cases(rows, lambda cases: indented_json([_entry(case) for case in cases]), read_prometheus)


def _after_system(prompt: Any, system_prompt: str | None) -> Any:
    """Prompt without the system message, which has its own field."""
    system = {"role": "system", "content": system_prompt}
    return prompt[1:] if system_prompt and isinstance(prompt, list) and prompt[:1] == [system] else prompt


def _entry(case: Case) -> Row:
    stored_data = case.kept("prometheus")
    scored = next((criterion for criterion in case.criteria if len(criterion.ranked_levels) == len(SCORES)), None)
    rubric: Row = {}
    if scored:
        points = {f"score{score}_description": scored.ranked_levels[score - 1].description for score in SCORES}
        rubric = {**imported_metadata(scored.metadata, "prometheus"), "criteria": scored.description, **points}
    return {
        **stored_data,
        "case_id": case.case_id,
        "instruction": prompt_text(_after_system(case.prompt, stored_data.get("system_prompt"))),
        **drop_none({"response": case.output, "reference_answer": case.reference, "response_source": case.model}),
        "score_rubric": rubric,
    }


SUMMARY = "a response, a reference and a criterion described for each score from 1 to 5, also of BiGGen Bench"
FORMAT = Format("prometheus", SUMMARY, ".json", "cases", read_prometheus, write_prometheus)
