"""Judgment of an agent's steps one by one: the question about several steps, its key and its parsed reply.

A question shows the whole trajectory and names the steps to judge, so that all questions about an output share the
trajectory as their prefix. Levels have opaque labels, as in `rubrics.prompts.prompt`. Code decides what counts: a
reply about other steps, or a step below the best level without an error and severity, is unreadable; a quote that is
not in its step is dropped.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import BaseModel, ConfigDict

from gradebook.rubrics.model.json_values import digest_of, drop_none
from gradebook.rubrics.model.methods import JudgeMethod
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.taxonomy import NamedError, StepMark, Taxonomy, ranked_severities
from gradebook.rubrics.prompts.prompt import Case, Labels, case_shown, label_of
from gradebook.rubrics.prompts.prompt_text import file_digest, fold_text, read_sections, shown_json
from gradebook.rubrics.prompts.reply_parser import (
    MOST_FOUND,
    ReadReply,
    clean_text,
    is_quoted,
    parse_reply,
    read_ending,
    unreadable,
)

STEPS_VERSION = "steps_judge_v1"
JUDGED_KINDS = ("model", "tool", "retrieval", "agent")  # the agent's own steps; other kinds are messages to it
NO_ERROR = "none"
MOST_RATIONALE, MOST_QUOTE = 1_000, 1_000
TOKENS_OF_STEP = 250  # most tokens of a reply per step


class _MarkEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    step: int
    quote: str
    rationale: str
    label: str
    error: str = NO_ERROR
    severity: str = NO_ERROR


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    steps: list[_MarkEntry]


@dataclass(frozen=True)
class StepCriterion:
    """Criterion whose judge labels steps. severities: from slight to grave; empty if only labels are scored."""

    criterion: Criterion
    taxonomy: Taxonomy | None
    severities: tuple[str, ...]

    @cached_property
    def errors(self) -> Mapping[str, NamedError]:
        """Errors of the taxonomy by their names in the prompt."""
        kinds = self.taxonomy.kinds if self.taxonomy else ()
        return {kind.path: kind for kind in kinds}

    @cached_property
    def digest(self) -> str:
        """Digest of everything that affects a reply: all but penalties and scores."""
        taxonomy = self.taxonomy.model_dump(exclude={"severities"}) if self.taxonomy else None
        levels = [
            [level.id, level.label, level.description, *level.indicators] for level in self.criterion.ranked_levels
        ]
        content = [
            self.criterion.description,
            self.method.guidance,
            levels,
            taxonomy,
            self.severities,
            self.method.max_tokens,
        ]
        return digest_of(json.dumps(content, ensure_ascii=False))

    @property
    def method(self) -> JudgeMethod:
        """Judge method of the criterion. Raises `TypeError` for another method."""
        return self.criterion.method_as(JudgeMethod)

    def shown(self, labels: Labels) -> dict[str, Any]:
        """Criterion as JSON values for the judge. labels: label -> level id."""
        label_by_level = {level_id: label for label, level_id in labels.items()}
        levels = [
            {
                "label": label_by_level[level.id],
                "meaning": ": ".join(filter(None, (level.label or level.id, level.description))),
            }
            | ({"indicators": list(level.indicators)} if level.indicators else {})
            for level in self.criterion.ranked_levels
        ]
        return drop_none(
            {
                "question": self.criterion.description,
                "guidance": self.method.guidance,
                "levels": levels,
                "errors": self._error_meanings() or None,
                "severities": list(self.severities) or None,
            }
        )

    @property
    def error_texts(self) -> dict[str, str]:
        """Meaning and description of each error, by its name."""
        return {entry["error"]: ": ".join(list(entry.values())[1:]) for entry in self._error_meanings()}

    def _error_meanings(self) -> list[dict[str, str]]:
        types = self.taxonomy.types if self.taxonomy else ()
        kinds = [(error_type, kind) for error_type in types for kind in error_type.subtypes or (error_type,)]
        return [
            {
                "error": name,
                "meaning": kind.label if kind is error_type else f"{error_type.label}: {kind.label}",
            }
            | ({"description": kind.description} if kind.description else {})
            for name, (error_type, kind) in zip(self.errors, kinds, strict=True)
        ]


def step_criterion(criterion: Criterion, taxonomy: Taxonomy | None) -> StepCriterion:
    """The criterion with the errors and severities that its judge may name; severities from slight to grave."""
    without_severities = StepCriterion(criterion, taxonomy, ())
    penalties = without_severities.method.penalties or (taxonomy.severities if taxonomy else {})
    return StepCriterion(criterion, taxonomy, ranked_severities(penalties))


def judged_steps(case: Case) -> tuple[int, ...]:
    """Numbers of the steps that a judge can be asked about: the shown steps, and the answer."""
    if case.trajectory is None:
        return ()
    step_numbers = [entry["step"] for entry in case.trajectory.shown if entry.get("kind") in JUDGED_KINDS]
    answer = case.trajectory.answer_index
    return tuple(step_numbers if answer is None else [*step_numbers, answer])


def windows_of_steps(case: Case, size: int) -> tuple[tuple[int, ...], ...]:
    """Steps of a case to judge, by question."""
    steps = judged_steps(case)
    return tuple(steps[first : first + size] for first in range(0, len(steps), size))


def step_labels(step_criterion: StepCriterion, case: Case, judge_digest: str, of_case: str) -> Labels:
    """Labels of the levels, the same in all questions about a case's steps, as they are part of the shared prefix.

    of_case: `case_digest` of the case.
    """
    return label_of(step_criterion.criterion, digest_of(f"{judge_digest}|{step_criterion.digest}|{of_case}"), case)


def render_steps(
    step_criterion: StepCriterion, case: Case, steps: Sequence[int], labels: Labels
) -> list[dict[str, Any]]:
    """Messages of one question. case: as seen with its trajectory."""
    sections = read_sections(STEPS_VERSION)
    fields = [*(["error"] if step_criterion.errors else []), *(["severity"] if step_criterion.severities else [])]
    system = sections["system"].replace("{fields}", "\n".join(sections[name] for name in fields)).rstrip()
    before_case, _, rest = sections["user"].partition("{case}")
    before_criterion, _, rest = rest.partition("{criterion}")
    before_steps, _, after = rest.partition("{steps}")
    pieces = (before_case, shown_json(steps_shown(case)), before_criterion, shown_json(step_criterion.shown(labels)))
    user = "".join((*pieces, before_steps, json.dumps(list(steps)), after))
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def steps_shown(case: Case) -> dict[str, Any]:
    """Case with its steps and, where the output is one of them, its place, as the JSON object CASE of a request."""
    content = case_shown(case)
    if case.trajectory is not None and case.trajectory.answer_index is not None:
        answer = {"step": case.trajectory.answer_index, "kind": "model", "is_output": True}
        content["steps"] = [*content["steps"], answer]
    return content


def steps_schema(step_criterion: StepCriterion, labels: Labels) -> dict[str, Any]:
    """Strict JSON schema of a reply."""
    properties: dict[str, Any] = {
        "step": {"type": "integer"},
        "quote": {"type": "string"},
        "rationale": {"type": "string"},
        "label": {"type": "string", "enum": sorted(labels)},
    }
    if step_criterion.errors:
        properties["error"] = {"type": "string", "enum": [*step_criterion.errors, NO_ERROR]}
    if step_criterion.severities:
        properties["severity"] = {"type": "string", "enum": [*step_criterion.severities, NO_ERROR]}
    entry = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    listed = {"type": "array", "items": entry}
    body = {"type": "object", "properties": {"steps": listed}, "required": ["steps"], "additionalProperties": False}
    return {"name": "steps", "strict": True, "schema": body}


def read_steps(
    text: str | None,
    finish_reason: str | None,
    refusal: str | None,
    step_criterion: StepCriterion,
    case: Case,
    steps: Sequence[int],
    labels: Labels,
) -> ReadReply:
    """Read one list of marks.

    rationale: JSON list for `marks_of`; unverified: quotes that are not in their step, which are dropped.
    """
    ending = read_ending(finish_reason, refusal)
    if ending is not None:
        return ending
    reply = parse_reply(text or "", _Reply)
    if isinstance(reply, ReadReply):
        return reply
    if [entry.step for entry in reply.steps] != list(steps):
        return unreadable(f"found marks of the steps {[entry.step for entry in reply.steps]}, expected {list(steps)}")
    texts = _texts_of(case)
    best = step_criterion.criterion.ranked_levels[-1].id
    marks: list[dict[str, Any]] = []
    unverified: list[str] = []
    for entry in reply.steps:
        level_id = labels.get(entry.label)
        is_best = level_id == best
        error, severity = (
            step_criterion.errors.get(entry.error),
            entry.severity if entry.severity in step_criterion.severities else None,
        )
        if level_id is None or (
            not is_best
            and (bool(step_criterion.errors) > bool(error) or bool(step_criterion.severities) > bool(severity))
        ):
            description = (
                f"the label {entry.label[:MOST_FOUND]!r} with the error {entry.error!r} and severity {entry.severity!r}"
            )
            return unreadable(f"found on step {entry.step} {description}, expected those shown")
        quote = clean_text(entry.quote, MOST_QUOTE) if fold_text(entry.quote) else ""
        if quote and not is_quoted([quote], texts.get(entry.step, "")):
            unverified.append(quote)
            quote = ""
        marks.append(
            {
                "step": entry.step,
                "level": level_id,
                "error_type": error.error_type if error and not is_best else None,
                "error_subtype": error.error_subtype if error and not is_best else None,
                "severity": None if is_best else severity,
                "rationale": clean_text(entry.rationale, MOST_RATIONALE),
                "quote": quote or None,
            }
        )
    return ReadReply("scored", rationale=json.dumps(marks, ensure_ascii=False), unverified=tuple(unverified))


def _texts_of(case: Case) -> dict[int, str]:
    """Texts of each shown step, by number, as the judge saw them."""
    if case.trajectory is None:
        return {}
    texts = {
        entry["step"]: "\n".join(
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for name, value in entry.items()
            if name not in ("step", "kind")
        )
        for entry in case.trajectory.shown
        if "step" in entry
    }
    answer = case.trajectory.answer_index
    return texts if answer is None else texts | {answer: case.output}


def marks_of(
    stored: str, scores: Mapping[str, float]
) -> tuple[tuple[StepMark, str | None, Mapping[str, float] | None], ...]:
    """Marks of a stored reply, each with its quote and the probabilities of its levels, by id.

    scores: of the levels, by id. Probabilities are None of a judge that writes.
    """
    return tuple(
        (
            StepMark(
                str(mark["step"]),
                mark["level"],
                scores[mark["level"]],
                *(mark[name] for name in ("error_type", "error_subtype", "severity", "rationale")),
            ),
            mark["quote"],
            mark.get("probabilities"),
        )
        for mark in json.loads(stored)
    )


def steps_key(
    judge_digest: str,
    step_criterion: StepCriterion,
    of_case: str,
    steps: Sequence[int],
    replicate: int = 0,
    *,
    prompt: str = STEPS_VERSION,
) -> str:
    """Key under which a question about some steps is paid for once, 32 hex digits.

    of_case: `case_digest` of the case; prompt: name of the prompt file.
    """
    numbers = ",".join(map(str, steps))
    again = f"|{replicate}" if replicate else ""
    return digest_of(f"steps|{judge_digest}|{file_digest(prompt)}|{step_criterion.digest}|{of_case}|{numbers}{again}")
