"""Steps of an agent judged one by one: the question about some of them, its key and its parsed reply.

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

from gradebook.rubrics.model.digests import digest_of
from gradebook.rubrics.model.methods import JudgeMethod
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.taxonomy import NamedError, StepMark, Taxonomy
from gradebook.rubrics.prompts.prompt import Case, Labels, case_shown, label_of
from gradebook.rubrics.prompts.reply_parser import (
    MOST_FOUND,
    ReadReply,
    clean_text,
    is_quoted,
    parse_reply,
    read_ending,
    unreadable,
)
from gradebook.rubrics.prompts.templates import file_digest, read_sections
from gradebook.rubrics.prompts.untrusted_text import fold_text, shown_json

STEPS_VERSION = "steps_judge_v1"
JUDGED_KINDS = ("model", "tool", "retrieval", "agent")  # what the agent did; the others were said to it
NO_ERROR = "none"
MOST_RATIONALE, MOST_QUOTE = 1_000, 1_000
TOKENS_OF_STEP = 250  # of a reply, at most


class _Said(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    step: int
    quote: str
    rationale: str
    label: str
    error: str = NO_ERROR
    severity: str = NO_ERROR


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    steps: list[_Said]


@dataclass(frozen=True)
class StepCriterion:
    """Criterion whose judge labels steps. severities: of slight to grave; empty if labels alone are scored."""

    criterion: Criterion
    taxonomy: Taxonomy | None
    severities: tuple[str, ...]

    @cached_property
    def errors(self) -> Mapping[str, NamedError]:
        """Errors of the taxonomy by the names that the judge gives."""
        kinds = self.taxonomy.kinds if self.taxonomy else ()
        return {kind.path: kind for kind in kinds}

    @cached_property
    def digest(self) -> str:
        """Digest of everything that affects a reply; penalties and scores do not."""
        taxonomy = self.taxonomy.model_dump(exclude={"severities"}) if self.taxonomy else None
        levels = [
            [level.id, level.label, level.description, *level.indicators] for level in self.criterion.ranked_levels
        ]
        shown = [
            self.criterion.description,
            self.method.guidance,
            levels,
            taxonomy,
            self.severities,
            self.method.max_tokens,
        ]
        return digest_of(json.dumps(shown, ensure_ascii=False))

    @property
    def method(self) -> JudgeMethod:
        """Its method. Raises `TypeError` for another one."""
        if not isinstance(self.criterion.method, JudgeMethod):
            raise TypeError(f"{self.criterion.id}: found the method {self.criterion.method.type}, expected judge")
        return self.criterion.method

    def shown(self, labels: Labels) -> dict[str, Any]:
        """The criterion as a judge sees it. labels: label -> level id."""
        label_by_level = {level_id: label for label, level_id in labels.items()}
        levels = [
            {
                "label": label_by_level[level.id],
                "meaning": ": ".join(filter(None, (level.label or level.id, level.description))),
            }
            | ({"indicators": list(level.indicators)} if level.indicators else {})
            for level in self.criterion.ranked_levels
        ]
        shown: dict[str, Any] = {
            "question": self.criterion.description,
            "guidance": self.method.guidance,
            "levels": levels,
        }
        shown |= {"errors": self._errors_shown() or None, "severities": list(self.severities) or None}
        return {name: value for name, value in shown.items() if value is not None}

    def _errors_shown(self) -> list[dict[str, str]]:
        kinds = [
            (each, kind) for each in (self.taxonomy.types if self.taxonomy else ()) for kind in each.subtypes or (each,)
        ]
        named = zip(self.errors, kinds, strict=True)
        return [
            {"error": name, "meaning": f"{each.label}: {kind.label}" if kind is not each else kind.label}
            | ({"description": kind.description} if kind.description else {})
            for name, (each, kind) in named
        ]


def judged_steps(case: Case) -> tuple[int, ...]:
    """Numbers of the steps that a judge can be asked about: those that are shown, and the answer's."""
    if case.trajectory is None:
        return ()
    shown = [entry["step"] for entry in case.trajectory.shown if entry.get("kind") in JUDGED_KINDS]
    answer = case.trajectory.answer_index
    return tuple(shown if answer is None else [*shown, answer])


def windows_of_steps(case: Case, size: int) -> tuple[tuple[int, ...], ...]:
    """Steps of a case to judge, by question."""
    steps = judged_steps(case)
    return tuple(steps[first : first + size] for first in range(0, len(steps), size))


def step_labels(asked: StepCriterion, case: Case, judge_digest: str, of_case: str) -> Labels:
    """Labels of the levels, equal in all questions about the steps of a case: they are part of the shared prefix.

    of_case: `case_digest` of the case.
    """
    return label_of(asked.criterion, digest_of(f"{judge_digest}|{asked.digest}|{of_case}"), case)


def render_steps(asked: StepCriterion, case: Case, steps: Sequence[int], labels: Labels) -> list[dict[str, Any]]:
    """Messages of one question. case: as seen with its trajectory."""
    sections = read_sections(STEPS_VERSION)
    fields = [*(["error"] if asked.errors else []), *(["severity"] if asked.severities else [])]
    system = sections["system"].replace("{fields}", "\n".join(sections[name] for name in fields)).rstrip()
    shown = case_shown(case)
    if case.trajectory is not None and case.trajectory.answer_index is not None:
        answer = {"step": case.trajectory.answer_index, "kind": "model", "is_output": True}
        shown["steps"] = [*shown["steps"], answer]
    before_case, _, rest = sections["user"].partition("{case}")
    before_criterion, _, rest = rest.partition("{criterion}")
    before_steps, _, after = rest.partition("{steps}")
    parts = (before_case, shown_json(shown), before_criterion, shown_json(asked.shown(labels)))
    user = "".join((*parts, before_steps, json.dumps(list(steps)), after))
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def steps_schema(asked: StepCriterion, labels: Labels) -> dict[str, Any]:
    """Strict JSON schema of a reply."""
    properties: dict[str, Any] = {
        "step": {"type": "integer"},
        "quote": {"type": "string"},
        "rationale": {"type": "string"},
        "label": {"type": "string", "enum": sorted(labels)},
    }
    if asked.errors:
        properties["error"] = {"type": "string", "enum": [*asked.errors, NO_ERROR]}
    if asked.severities:
        properties["severity"] = {"type": "string", "enum": [*asked.severities, NO_ERROR]}
    entry = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    listed = {"type": "array", "items": entry}
    body = {"type": "object", "properties": {"steps": listed}, "required": ["steps"], "additionalProperties": False}
    return {"name": "steps", "strict": True, "schema": body}


def read_steps(
    text: str | None,
    finish_reason: str | None,
    refusal: str | None,
    asked: StepCriterion,
    case: Case,
    steps: Sequence[int],
    labels: Labels,
) -> ReadReply:
    """Read one list of marks: a JSON list as the rationale, for `marks_of`; quotes that are not in their step are
    dropped and `unverified`.
    """
    ending = read_ending(finish_reason, refusal)
    if ending is not None:
        return ending
    reply = parse_reply(text or "", _Reply)
    if isinstance(reply, ReadReply):
        return reply
    if [said.step for said in reply.steps] != list(steps):
        return unreadable(f"found marks of the steps {[said.step for said in reply.steps]}, expected {list(steps)}")
    texts = _texts_of(case)
    best = asked.criterion.ranked_levels[-1].id
    marks: list[dict[str, Any]] = []
    unverified: list[str] = []
    for said in reply.steps:
        level_id = labels.get(said.label)
        is_best = level_id == best
        error, severity = asked.errors.get(said.error), said.severity if said.severity in asked.severities else None
        if level_id is None or (
            not is_best and (bool(asked.errors) > bool(error) or bool(asked.severities) > bool(severity))
        ):
            found = (
                f"the label {said.label[:MOST_FOUND]!r} with the error {said.error!r} and severity {said.severity!r}"
            )
            return unreadable(f"found on step {said.step} {found}, expected those shown")
        quote = clean_text(said.quote, MOST_QUOTE) if fold_text(said.quote) else ""
        if quote and not is_quoted([quote], texts.get(said.step, "")):
            unverified.append(quote)
            quote = ""
        marks.append(
            {
                "step": said.step,
                "level": level_id,
                "error_type": error.error_type if error and not is_best else None,
                "error_subtype": error.error_subtype if error and not is_best else None,
                "severity": None if is_best else severity,
                "rationale": clean_text(said.rationale, MOST_RATIONALE),
                "quote": quote or None,
            }
        )
    return ReadReply("scored", rationale=json.dumps(marks, ensure_ascii=False), unverified=tuple(unverified))


def _texts_of(case: Case) -> dict[int, str]:
    """Texts of each step that is shown, as the judge saw them."""
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


def marks_of(stored: str, scores: Mapping[str, float]) -> tuple[tuple[StepMark, str | None], ...]:
    """Marks of a stored reply, each with its quote. scores: of the levels, by id."""
    return tuple(
        (
            StepMark(
                str(each["step"]),
                each["level"],
                scores[each["level"]],
                *(each[name] for name in ("error_type", "error_subtype", "severity", "rationale")),
            ),
            each["quote"],
        )
        for each in json.loads(stored)
    )


def steps_key(judge_digest: str, asked: StepCriterion, of_case: str, steps: Sequence[int], replicate: int = 0) -> str:
    """Key under which a question about some steps is paid for once, 32 hex digits. of_case: `case_digest` of it."""
    prompt, numbers = file_digest(STEPS_VERSION), ",".join(map(str, steps))
    again = f"|{replicate}" if replicate else ""
    return digest_of(f"steps|{judge_digest}|{prompt}|{asked.digest}|{of_case}|{numbers}{again}")
