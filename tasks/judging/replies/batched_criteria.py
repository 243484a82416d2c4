"""Several criteria of one output in one request: batched criteria, and the typed questions of a decision model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import orjson

from gradebook.rubrics.model.errors import JudgeSettingsError
from gradebook.rubrics.model.json_values import canonical_json, digest_of
from gradebook.rubrics.model.methods import ClaimsMethod, PreferenceMethod
from gradebook.rubrics.model.rubric import Criterion, Rubric
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
from gradebook.rubrics.prompts.decisions import (
    DECISIONS_PROMPT,
    decisions_prompt_digest,
    question_digest,
    question_fault,
    read_answers,
    render_state,
    typed_question,
)
from gradebook.rubrics.prompts.media_kinds import UnreadableMedia
from gradebook.rubrics.prompts.prompt import (
    Messages,
    View,
    audio_and_view,
    criterion_digest,
    lists_requirements,
    repair_messages,
    template_of,
)
from gradebook.rubrics.prompts.reply_parser import ReadReply
from gradebook.rubrics.prompts.step_marks import step_criterion
from gradebook.rubrics.prompts.typed_parts import steps_fault
from gradebook.tasks.judging.prices import BYTES_PER_TOKEN
from gradebook.tasks.judging.replies.question import Answer, Outcome, Question, Request
from gradebook.tasks.judging.settings.judge import Ceilings, Judge, JudgeSettings, Packing


def packs_of(criteria: Sequence[Criterion], packing: Packing) -> list[tuple[Criterion, ...]]:
    """Batches of criteria that see, hear and list the same, of at most so many and as long as labels suffice.

    Criteria of a batch apply to the same outputs: they have one condition, or none.
    """

    def view(criterion: Criterion) -> tuple[tuple[bool, View], str, bool, str]:
        applies = "" if criterion.applies is None else canonical_json(criterion.model_dump(include={"applies"}))
        return audio_and_view(criterion), template_of(criterion) or "", lists_requirements(criterion), applies

    packs: list[tuple[Criterion, ...]] = []
    for criterion in sorted(criteria, key=view):
        longer = (*packs[-1], criterion) if packs else ()
        are_alike = len(set(map(view, longer))) == 1
        if are_alike and len(longer) <= packing.size and (packing.is_typed or can_be_packed(longer)):
            packs[-1] = longer
        else:
            packs.append((criterion,))
    return packs


def asked_digest(criterion: Criterion, pack: Sequence[Criterion], packing: Packing) -> str:
    """Digest of the criterion's prompt, including the other criteria that are part of the question; 32 hex digits."""
    if packing.is_typed:
        return question_digest(criterion, pack if packing.is_whole else ())
    return packed_criterion_digest(criterion, pack) if packing.is_packed else criterion_digest(criterion)


@dataclass(frozen=True, slots=True)
class PackedAnswers:
    """Answers to several questions of one request, one per question."""

    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class SeveralQuestions:
    """Questions about one output that are asked in one request."""

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
    def part_keys(self) -> tuple[str, ...]:
        """Request keys of all questions, in order."""
        return tuple(question.request_key for question in self.questions)

    @property
    def replicate(self) -> int:
        """Replicate number (shared by all questions)."""
        return self.questions[0].replicate

    def answer(self, outcome: Outcome) -> PackedAnswers:
        """Pair each question with its outcome."""
        parts = outcome.parts or (outcome,) * len(self.questions)
        return PackedAnswers(tuple(question.answer(part) for question, part in zip(self.questions, parts, strict=True)))


@dataclass(frozen=True, slots=True)
class PackedQuestion(SeveralQuestions):
    """Batched criteria of one output, in the order of the rubric, including those already answered."""

    @property
    def request_key(self) -> str:
        """Request key of the first question; covers the whole request."""
        return self.questions[0].request_key

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
        style = first.style.of(first.criterion)
        is_listing = style.lists_requirements

        def read_parts(text: str | None, finish_reason: str | None, refusal: str | None) -> list[ReadReply]:
            quotable = first.case.quotable
            return read_packed(text, finish_reason, refusal, labels, quotable, lists_requirements=is_listing)

        def repair(text: str, useless: ReadReply) -> Messages:
            return repair_messages(messages, text, useless, style, prompt_name=PACKED_PROMPT)

        messages = render_packed(first.case, criteria, keys, style)
        return Request(
            messages,
            packed_schema(labels, style),
            lambda text, finish_reason, refusal, _choices: read_parts(text, finish_reason, refusal)[0],
            repair=repair,
            parts=self.questions,
            read_parts=read_parts,
            part_tokens=tuple(getattr(criterion.method, "max_tokens", None) for criterion in criteria),
        )


NO_CEILINGS = Ceilings()
TOO_LONG = "too_long"


class RequestTooLong(UnreadableMedia):
    """A request with several questions is over a ceiling: with less of them it may not be."""


def refuse_too_long(most: Ceilings, state: Messages, questions: Mapping[str, Any], count: int) -> None:
    """Raise `UnreadableMedia` for a request of `count` questions over a ceiling, as a state is never cut silently.

    `RequestTooLong` where less questions may be within it.
    """
    state_bytes, question_bytes = len(orjson.dumps(state)), len(orjson.dumps(questions))
    tokens = (state_bytes + question_bytes) / BYTES_PER_TOKEN
    of_one = (state_bytes + question_bytes / count) / BYTES_PER_TOKEN
    kind = UnreadableMedia if count == 1 else RequestTooLong
    if most.question_tokens is not None and of_one > most.question_tokens:
        size = f"about {of_one:,.0f} tokens of text and question, expected at most {most.question_tokens:,}"
        raise UnreadableMedia(f"{TOO_LONG}: found {size}")
    if most.request_tokens is not None and tokens > most.request_tokens:
        raise kind(f"{TOO_LONG}: found about {tokens:,.0f} tokens, expected at most {most.request_tokens:,}")
    if most.request_bytes is not None and state_bytes + question_bytes > most.request_bytes:
        size = f"{state_bytes + question_bytes:,} bytes of text and question"
        raise kind(f"{TOO_LONG}: found {size}, expected at most {most.request_bytes:,}")


@dataclass(frozen=True, slots=True)
class DecisionQuestions(SeveralQuestions):
    """Open criteria of one output with the same view of it, one judgment each.

    ceilings: of the model; a state that exceeds them with a single question is not sent.
    """

    ceilings: Ceilings = NO_CEILINGS

    @property
    def request_key(self) -> str:
        """Key of the request: its questions', in order."""
        return digest_of("|".join(self.part_keys)) if len(self.questions) > 1 else self.questions[0].request_key

    @property
    def prefix(self) -> str:
        """The request key, as no prefix is shared: order does not matter."""
        return self.request_key

    @property
    def prompt_digest(self) -> str:
        """Digest of the prompt file of typed questions."""
        return decisions_prompt_digest(self.questions[0].case.sees)

    def only(self, questions: Sequence[Question]) -> "DecisionQuestions":
        """The same request with some of its questions."""
        return DecisionQuestions(tuple(questions), self.ceilings)

    def request(self) -> Request:
        """State and typed questions. Raises `UnreadableMedia` where nothing can be asked."""
        first = self.questions[0]
        if len(self.questions) == 1 and (fault := question_fault(first.criterion, self.ceilings.options)):
            raise UnreadableMedia(f"unsupported_question: {fault}")
        typed = tuple(
            typed_question(question.criterion, question.request_key, number)
            for number, question in enumerate(self.questions, start=1)
        )
        messages = render_state(first.case, first.criterion)
        schema = {"name": DECISIONS_PROMPT, "questions": typed}
        refuse_too_long(self.ceilings, messages, schema, len(typed))

        def read_parts(text: str | None, _finish_reason: str | None, _refusal: str | None) -> list[ReadReply]:
            return read_answers(text, typed)

        return Request(
            messages,
            schema,
            lambda text, finish_reason, refusal, _choices: read_parts(text, finish_reason, refusal)[0],
            parts=self.questions,
            read_parts=read_parts,
            questions=typed,
        )


def typed_requests(questions: Sequence[Question], judge: JudgeSettings) -> Iterator[DecisionQuestions]:
    """Requests with typed questions about one output: grouped by view, as many as the ceilings allow."""
    ceilings = judge.ceilings or NO_CEILINGS

    def view(question: Question) -> str:
        return f"{audio_and_view(question.criterion)} {template_of(question.criterion) or ''}"

    for _, alike in groupby(sorted(questions, key=view), key=view):
        pack: list[Question] = []
        for question in alike:
            if question_fault(question.criterion, ceilings.options):
                yield DecisionQuestions((question,), ceilings)
            elif pack and len(pack) == judge.questions_per_request:
                yield DecisionQuestions(tuple(pack), ceilings)
                pack = [question]
            else:
                pack.append(question)
        if pack:
            yield DecisionQuestions(tuple(pack), ceilings)


def refuse_undecidable(rubric: Rubric, judge: Judge | None) -> None:
    """Raise `JudgeSettingsError` that names each criterion of a rubric that a decision model can't decide."""
    faults = []
    if judge is None:
        return
    for criterion in rubric.asked_criteria:
        judge_indices = {opinion.judge_index for opinion in judge.votes(criterion.id)}
        members = [judge.members[index].as_model for index in sorted(judge_indices)]
        models = [member for member in members if member is not None and member.is_decision]
        for model in models[:1]:
            fault = _fault_of(rubric, criterion, model, is_writer=judge.writer.is_decision)
            faults += [f"{criterion.id}: {fault}"] if fault else []
    if faults:
        raise JudgeSettingsError("\n".join(faults))


def _fault_of(rubric: Rubric, criterion: Criterion, model: JudgeSettings, *, is_writer: bool) -> str | None:
    """Why a decision model can't decide a criterion; None if it can. is_writer: no other judge could write."""
    method, most_options = criterion.method, (model.ceilings or NO_CEILINGS).options
    if isinstance(method, ClaimsMethod):
        if method.measure == "passages":
            return "found `measure: passages`, expected another measure: a decision model gives no quotes"
        if is_writer and method.finds_claims:
            remedy = "`precision: sentence`, or a panel with a judge that writes"
            return f"found claims to be found in the text, expected {remedy}: {model.judge} writes no text"
        return None
    if isinstance(method, PreferenceMethod):
        return None
    fault = question_fault(criterion, most_options)
    if fault is None and criterion.is_stepwise:
        return steps_fault(step_criterion(criterion, rubric.taxonomy), most_options)
    return fault
