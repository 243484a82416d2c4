"""Batched criteria: several criteria in one request.

Cheaper and less exact, so such verdicts are never mixed with others.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from gradebook.rubrics.model.json_values import digest_of
from gradebook.rubrics.model.methods import Sees
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.prompt import (
    DEFAULT_STYLE,
    JUDGE_PROMPT_VERSION,
    Case,
    Labels,
    Messages,
    PromptStyle,
    case_text,
    criterion_digest,
    fill_prompt,
    judgment_shape,
    label_meanings,
    seeing_digest,
    show_criterion,
    template_of,
)
from gradebook.rubrics.prompts.prompt_text import CODES, draw_labels, shuffle_labels
from gradebook.rubrics.prompts.reply_parser import (
    MOST_FOUND,
    ReadReply,
    parse_reply,
    read_ending,
    read_judgment,
    unreadable,
)

PACKED_PROMPT = f"{JUDGE_PROMPT_VERSION}_packed"


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    judgments: dict[str, Any]


def packed_prompt_digest(sees: Sees = "answer") -> str:
    """Digest of the prompt file for batches, 32 hex digits."""
    return seeing_digest(PACKED_PROMPT, sees)


def packed_criterion_digest(criterion: Criterion, pack: Sequence[Criterion]) -> str:
    """Digest of a criterion and of all criteria of its request, in order; 32 hex digits."""
    digests = "|".join(map(criterion_digest, (criterion, *pack)))
    return digest_of(f"pack|{digests}")


def can_be_packed(criteria: Sequence[Criterion]) -> bool:
    """Whether there are labels for all levels of the criteria together."""
    return sum(len(label_meanings(criterion)) for criterion in criteria) <= len(CODES)


def pack_labels(criteria: Sequence[Criterion], request_keys: Sequence[str], case: Case | None = None) -> list[Labels]:
    """Draw labels for each criterion of a batch, as `label_of` does; no two criteria share a label.

    request_keys: (criterion,). Distinct labels keep a judgment under the wrong number from counting for another
    criterion.
    """
    meanings = [label_meanings(criterion) for criterion in criteria]
    unused_labels = iter(draw_labels(sum(map(len, meanings)), case_text(case) if case else ""))
    return [
        dict(zip(shuffle_labels([next(unused_labels) for _ in meaning], key), meaning, strict=True))
        for meaning, key in zip(meanings, request_keys, strict=True)
    ]


def render_packed(
    case: Case, criteria: Sequence[Criterion], request_keys: Sequence[str], style: PromptStyle = DEFAULT_STYLE
) -> Messages:
    """Write the messages that ask several criteria at once: instructions, case and output, then the criteria."""
    labels = pack_labels(criteria, request_keys, case)
    questions = {
        str(number): show_criterion(criterion, criterion_labels, style)
        for number, (criterion, criterion_labels) in enumerate(zip(criteria, labels, strict=True), start=1)
    }
    return fill_prompt(PACKED_PROMPT, case, questions, style.of(criteria[0]), template_of(criteria[0]))


def packed_schema(labels: Sequence[Mapping[str, str | None]], style: PromptStyle = DEFAULT_STYLE) -> dict[str, Any]:
    """Strict JSON schema of a reply: a judgment under the number of each criterion, limited to its own labels."""
    numbers = [str(number) for number in range(1, len(labels) + 1)]
    judgments = {
        "type": "object",
        "properties": {
            number: judgment_shape(criterion_labels.keys(), style)
            for number, criterion_labels in zip(numbers, labels, strict=True)
        },
        "required": numbers,
        "additionalProperties": False,
    }
    shape = {
        "type": "object",
        "properties": {"judgments": judgments},
        "required": ["judgments"],
        "additionalProperties": False,
    }
    return {"name": "judgments", "strict": True, "schema": shape}


def read_packed(
    text: str | None,
    finish_reason: str | None,
    refusal: str | None,
    labels: Sequence[Mapping[str, str | None]],
    output: str,
    *,
    lists_requirements: bool = False,
) -> list[ReadReply]:
    """Read the judgments of a batch, each as `read_reply` does.

    labels: (criterion,), from `pack_labels`. Too few or too many judgments are a parse error for all; an invalid
    judgment affects only its own criterion.
    """
    ending = read_ending(finish_reason, refusal)
    if ending is not None:
        return [ending] * len(labels)
    reply = parse_reply(text or "", _Reply)
    numbers = [str(number) for number in range(1, len(labels) + 1)]
    if isinstance(reply, ReadReply):
        return [reply] * len(labels)
    if reply.judgments.keys() != set(numbers):
        given_numbers = ", ".join(reply.judgments)[:MOST_FOUND]
        return [
            unreadable(f"found judgments under {given_numbers or 'no number'}, expected {', '.join(numbers)}")
        ] * len(labels)
    return [
        read_judgment(reply.judgments[number], criterion_labels, output, lists_requirements=lists_requirements)
        for number, criterion_labels in zip(numbers, labels, strict=True)
    ]
