"""Better guidance for a judged question: the prompt that asks a model for it, and the candidates of its reply.

The reply is untrusted text: `rubrics.lint.guidance` checks its proposals before a judge reads them.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from gradebook.rubrics.model.json_values import drop_none
from gradebook.rubrics.model.methods import JudgedExample, JudgeMethod
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.chat import shown_prompt
from gradebook.rubrics.prompts.prompt import level_meaning
from gradebook.rubrics.prompts.prompt_text import read_sections

GUIDANCE_PROMPT = "guidance_v1"
MOST_TEXT = 1_500  # characters of each text of a case
MOST_NOTE = 400
LONGEST_GUIDANCE = 1_200
MOST_PROPOSED = 2


@dataclass(frozen=True, slots=True)
class RatedCase:
    """Rated output for the proposing model. people, judge: level ids by people and judge. notes: of people."""

    prompt: str | None
    output: str
    reference: str | None
    people: str
    judge: str
    rationale: str | None = None
    notes: tuple[str, ...] = ()

    def shown(self) -> dict[str, Any]:
        """The case as a JSON object, its texts cut."""
        prompt = shown_prompt(self.prompt)
        text = prompt if prompt is None or isinstance(prompt, str) else json.dumps(prompt, ensure_ascii=False)
        case = {"prompt": text, "reference": self.reference, "output": self.output}
        return drop_none(
            {
                "case": {name: value[:MOST_TEXT] for name, value in case.items() if value},
                "people": self.people,
                "judge": self.judge,
                "rationale": self.rationale and self.rationale[:MOST_NOTE],
                "notes": [note[:MOST_NOTE] for note in self.notes] or None,
            }
        )


class LevelText(BaseModel):
    """New description of a level, by its id."""

    model_config = ConfigDict(extra="forbid")

    level: str
    description: Annotated[str, Field(min_length=1, max_length=LONGEST_GUIDANCE)]


class Proposal(BaseModel):
    """Guidance that a model proposes, and its descriptions of some levels. reason: disagreements that it resolves."""

    model_config = ConfigDict(extra="forbid")

    guidance: str
    levels: list[LevelText]
    reason: str


class Proposals(BaseModel):
    """A model's reply."""

    model_config = ConfigDict(extra="forbid")

    candidates: Annotated[list[Proposal], Field(max_length=8)]


def guidance_instructions() -> str:
    """Instructions to the model that proposes guidance."""
    return read_sections(GUIDANCE_PROMPT)["system"]


def guidance_material(
    criterion: Criterion, disagreements: Sequence[RatedCase], agreements: Sequence[RatedCase]
) -> dict[str, Any]:
    """Question, disagreements and agreements, as JSON values for the proposing model."""
    method = criterion.method_as(JudgeMethod)
    question = {
        "question": criterion.description,
        "guidance": method.guidance,
        "levels": [{"level": level.id} | level_meaning(level) for level in criterion.ranked_levels],
    }
    return {
        "question": drop_none(question),
        "disagreements": [case.shown() for case in disagreements],
        "agreements": [case.shown() for case in agreements],
    }


def with_guidance(criterion: Criterion, proposal: Proposal) -> Criterion:
    """Criterion with the proposal's guidance and level descriptions; level ids and scores stay."""
    method = criterion.method_as(JudgeMethod).model_copy(update={"guidance": proposal.guidance.strip()})
    texts = {text.level: text.description.strip() for text in proposal.levels}
    if not texts:
        return criterion.model_copy(update={"method": method})
    if criterion.scale is not None:
        points = criterion.scale.points | texts
        scale = criterion.scale.model_copy(update={"points": points})
        return criterion.model_copy(update={"method": method, "scale": scale})
    levels = tuple(
        level.model_copy(update={"description": texts.get(level.id, level.description)}) for level in criterion.levels
    )
    return criterion.model_copy(update={"method": method, "levels": levels})


def with_examples(criterion: Criterion, examples: Sequence[JudgedExample]) -> Criterion:
    """Criterion with these examples in place of its own."""
    method = criterion.method_as(JudgeMethod).model_copy(update={"examples": tuple(examples)})
    return criterion.model_copy(update={"method": method})
