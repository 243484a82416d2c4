"""Batched criteria: several criteria of one output in one request."""

from collections.abc import Sequence
from dataclasses import dataclass

from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.batched_criteria import (
    PACKED_PROMPT,
    can_be_packed,
    pack_labels,
    packed_criterion_digest,
    packed_prompt_digest,
    packed_schema,
    read_packed,
    render_packed,
)
from gradebook.rubrics.prompts.prompt import Messages, criterion_digest, template_of, view_of
from gradebook.rubrics.prompts.repairs import repair_messages
from gradebook.rubrics.prompts.reply_parser import ReadReply
from gradebook.tasks.judging.replies.question import Answer, Outcome, Question, Request
from gradebook.tasks.judging.settings.judge import JudgeSettings


def packs_of(criteria: Sequence[Criterion], packing: int) -> list[tuple[Criterion, ...]]:
    """Batches of criteria that see and hear the same, each at most `packing` long and as long as labels suffice."""

    def view(criterion: Criterion) -> tuple[tuple[bool, str], str]:
        return view_of(criterion), template_of(criterion) or ""

    packs: list[tuple[Criterion, ...]] = []
    for criterion in sorted(criteria, key=view):
        longer = (*packs[-1], criterion) if packs else ()
        are_alike = len(set(map(view, longer))) == 1
        if are_alike and len(longer) <= packing and can_be_packed(longer):
            packs[-1] = longer
        else:
            packs.append((criterion,))
    return packs


def packing_of(judge: object) -> int:
    """Maximum number of criteria per request of a judge; 1 for recorded replies."""
    return judge.packing if isinstance(judge, JudgeSettings) else 1


def asked_digest(criterion: Criterion, pack: Sequence[Criterion], *, is_packed: bool) -> str:
    """Digest of the criterion's prompt, including the other criteria asked in the same request; 32 hex digits."""
    return packed_criterion_digest(criterion, pack) if is_packed else criterion_digest(criterion)


@dataclass(frozen=True, slots=True)
class PackedAnswers:
    """Answers to batched criteria, one per question."""

    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class PackedQuestion:
    """Batched criteria of one output, in the order of the rubric, including those already answered."""

    questions: tuple[Question, ...]

    @property
    def output_id(self) -> str:
        """Output that all questions are about."""
        return self.questions[0].output_id

    @property
    def criterion_id(self) -> str:
        """Id of the first criterion."""
        return self.questions[0].criterion_id

    @property
    def request_key(self) -> str:
        """Request key of the first question; covers the whole request."""
        return self.questions[0].request_key

    @property
    def part_keys(self) -> tuple[str, ...]:
        """Request keys of all questions, in order."""
        return tuple(question.request_key for question in self.questions)

    @property
    def replicate(self) -> int:
        """Replicate number (shared by all questions)."""
        return self.questions[0].replicate

    @property
    def prefix(self) -> str:
        """Id of the output, which precedes the criteria in the prompt, and what is shown of it."""
        return self.questions[0].prefix

    @property
    def prompt_digest(self) -> str:
        """Digest of the prompt file for batched criteria."""
        return packed_prompt_digest(self.questions[0].case.sees)

    def request(self) -> Request:
        """Messages with the case and the criteria, each with its own labels."""
        first = self.questions[0]
        criteria = [question.criterion for question in self.questions]
        keys = [question.request_key for question in self.questions]
        labels = pack_labels(criteria, keys, first.case)

        def read_parts(text: str | None, finish_reason: str | None, refusal: str | None) -> list[ReadReply]:
            return read_packed(text, finish_reason, refusal, labels, first.case.quotable)

        def repair(text: str, useless: ReadReply) -> Messages:
            return repair_messages(messages, text, useless, first.style, prompt_name=PACKED_PROMPT)

        messages = render_packed(first.case, criteria, keys, first.style)
        return Request(
            messages,
            packed_schema(labels, first.style),
            lambda text, finish_reason, refusal, _choices: read_parts(text, finish_reason, refusal)[0],
            repair=repair,
            parts=self.questions,
            read_parts=read_parts,
            part_tokens=tuple(getattr(criterion.method, "max_tokens", None) for criterion in criteria),
        )

    def answer(self, outcome: Outcome) -> PackedAnswers:
        """Pair each question with its outcome."""
        parts = outcome.parts or (outcome,) * len(self.questions)
        return PackedAnswers(tuple(question.answer(part) for question, part in zip(self.questions, parts, strict=True)))
