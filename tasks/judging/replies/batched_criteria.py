"""Several criteria of one output asked in one request: a question of questions."""

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
from gradebook.rubrics.prompts.prompt import Messages, criterion_digest
from gradebook.rubrics.prompts.repairs import repair_messages
from gradebook.rubrics.prompts.reply_parser import ReadReply
from gradebook.tasks.judging.replies.question import Answer, Outcome, Question, Request
from gradebook.tasks.judging.settings.judge import JudgeSettings


def packs_of(criteria: Sequence[Criterion], packing: int) -> list[tuple[Criterion, ...]]:
    """The packs in which criteria are asked: up to so many that follow one another, as long as there are labels."""
    packs: list[tuple[Criterion, ...]] = []
    for criterion in criteria:
        longer = (*packs[-1], criterion) if packs else ()
        if longer and len(longer) <= packing and can_be_packed(longer):
            packs[-1] = longer
        else:
            packs.append((criterion,))
    return packs


def packing_of(judge: object) -> int:
    """How many criteria a judge is asked at once; recorded replies are looked up one by one."""
    return judge.packing if isinstance(judge, JudgeSettings) else 1


def asked_digest(criterion: Criterion, criteria: Sequence[Criterion], packing: int) -> str:
    """Hash of what a criterion is asked as, alone or in its pack among the criteria; 32 hex digits."""
    if packing == 1:
        return criterion_digest(criterion)
    (pack,) = (pack for pack in packs_of(criteria, packing) if criterion in pack)
    return packed_criterion_digest(criterion, pack)


@dataclass(frozen=True, slots=True)
class PackedAnswers:
    """What came of a pack: an answer for each of its questions."""

    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class PackedQuestion:
    """Criteria of one output in one request, in the order of the pack, whichever of them are still open."""

    questions: tuple[Question, ...]

    @property
    def output_id(self) -> str:
        """The output that all are about."""
        return self.questions[0].output_id

    @property
    def criterion_id(self) -> str:
        """The first of the criteria."""
        return self.questions[0].criterion_id

    @property
    def request_key(self) -> str:
        """The first one's: it covers the whole pack."""
        return self.questions[0].request_key

    @property
    def part_keys(self) -> tuple[str, ...]:
        """Those of all, in order."""
        return tuple(question.request_key for question in self.questions)

    @property
    def replicate(self) -> int:
        """The same for all."""
        return self.questions[0].replicate

    @property
    def prefix(self) -> str:
        """The output, which stands before the criteria."""
        return self.output_id

    @property
    def prompt_digest(self) -> str:
        """Hash of the prompt file for packs."""
        return packed_prompt_digest()

    def request(self) -> Request:
        """The case and the criteria, each with labels of its own."""
        first = self.questions[0]
        criteria = [question.criterion for question in self.questions]
        keys = [question.request_key for question in self.questions]
        labels = pack_labels(criteria, keys, first.case)

        def read_parts(text: str | None, finish_reason: str | None, refusal: str | None) -> list[ReadReply]:
            return read_packed(text, finish_reason, refusal, labels, first.case.output)

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
        """The outcome of each question beside it."""
        parts = outcome.parts or (outcome,) * len(self.questions)
        return PackedAnswers(tuple(question.answer(part) for question, part in zip(self.questions, parts, strict=True)))
