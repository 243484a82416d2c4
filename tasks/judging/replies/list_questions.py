"""Questions about parts of an output, whose replies are lists, and preferences; a list is stored as the rationale.

Claims are asked about in two stages: which claims an output makes, and whether a source supports them. Steps are
asked about some at a time.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Protocol, TypeVar

from gradebook.rubrics.checks.grounding.citations import cited_sentences
from gradebook.rubrics.model.methods import CITATION_MEASURES, ClaimsMethod
from gradebook.rubrics.prompts.claims import (
    CLAIMS_AT_ONCE,
    EXTRACT_SCHEMA,
    EXTRACT_VERSION,
    VERIFY_VERSION,
    WINDOW,
    Claim,
    Window,
    claims_key,
    claims_prompt_digest,
    read_extraction,
    read_verification,
    render_extraction,
    render_verification,
    sentence_claims,
    verify_schema,
    windows_of,
)
from gradebook.rubrics.prompts.decisions import TypedQuestion
from gradebook.rubrics.prompts.prompt import NO_STEPS, Case, View, case_digest
from gradebook.rubrics.prompts.prompt_text import file_digest, fold_text
from gradebook.rubrics.prompts.reply_parser import ReadReply, TokenChoices
from gradebook.rubrics.prompts.step_marks import (
    STEPS_VERSION,
    TOKENS_OF_STEP,
    StepCriterion,
    read_steps,
    render_steps,
    step_labels,
    steps_key,
    steps_schema,
    windows_of_steps,
)
from gradebook.rubrics.prompts.typed_parts import (
    PARTS_PROMPT,
    claim_questions,
    read_claim_answers,
    read_step_answers,
    render_source_state,
    render_steps_state,
    step_questions_of,
)
from gradebook.tasks.judging.replies.batched_criteria import NO_CEILINGS, refuse_too_long
from gradebook.tasks.judging.replies.question import Outcome, Request
from gradebook.tasks.judging.settings.judge import Ceilings, JudgeSettings

Messages = list[dict[str, Any]]


class Reader(Protocol):
    """Reads a reply from its text, finish_reason and refusal."""

    def __call__(self, text: str | None, finish_reason: str | None, refusal: str | None) -> ReadReply: ...


@dataclass(frozen=True, slots=True)
class AskedJudge:
    """Judge that a question is for. digest: of its identity; ceilings: of a decision model, None for others."""

    digest: str
    ceilings: Ceilings | None = None

    @property
    def is_decision(self) -> bool:
        """Whether it is asked typed questions."""
        return self.ceilings is not None


def asked_judge(settings: JudgeSettings) -> AskedJudge:
    """Judge of some settings, as questions are written for it."""
    return AskedJudge(settings.judge_digest, settings.ceilings or NO_CEILINGS if settings.is_decision else None)


@dataclass(frozen=True, slots=True)
class ListQuestion:
    """One question, or typed questions about one state. render: writes the messages when asked, as they are long."""

    output_id: str
    criterion_id: str
    request_key: str
    version: str
    prompt_digest: str
    render: Callable[[], Messages]
    schema: dict[str, Any]
    max_tokens: int
    reader: Reader
    replicate: int = 0
    questions: tuple[TypedQuestion, ...] = ()  # of a decision model, about the state, which is the only message
    ceilings: Ceilings = NO_CEILINGS  # of a decision model

    @property
    def prefix(self) -> str:
        """Output and prompt file: such questions share the first part of the prompt."""
        return f"{self.output_id} {self.version}"

    def request(self) -> Request:
        """Messages for a reply that is one list. Raises `UnreadableMedia` over a ceiling of a decision model."""

        def read(
            text: str | None, finish_reason: str | None, refusal: str | None, _choices: TokenChoices | None
        ) -> ReadReply:
            return self.reader(text, finish_reason, refusal)

        messages = self.render()
        if self.questions:
            refuse_too_long(self.ceilings, messages, self.schema, len(self.questions))
        return Request(messages, self.schema, read, self.max_tokens, questions=self.questions)

    def answer(self, outcome: Outcome) -> "ListAnswer":
        """List of the reply, if usable."""
        text = outcome.rationale if outcome.status == "scored" else None
        reason = outcome.reason if text is None else None
        level_and_evidence = (outcome.level_id, outcome.evidence) if text is not None else (None, None)
        paid = (outcome.request_count, outcome.paid_by, outcome.cost_usd)
        return ListAnswer(self.request_key, text, reason, *paid, *level_and_evidence)


@dataclass(frozen=True, slots=True)
class ListAnswer:
    """Stored list or rationale of a reply; None if there is none, with the reason.

    level_id, evidence: of a preference, the quotes as a JSON list.
    """

    request_key: str
    text: str | None
    reason: str | None
    request_count: int
    paid_by: str | None
    cost_usd: float | None
    level_id: str | None = None
    evidence: str | None = None


MOST_CITATIONS = 5  # of a sentence whose precision is measured
MOST_SENTENCES = 600  # of a text: 30 windows
MOST_CLAIM_TOKENS = 90  # of a reply, for each claim: its words twice, or a quote
EXTRACT_TOKENS = WINDOW * 2 * MOST_CLAIM_TOKENS
VERIFY_TOKENS = 256 + CLAIMS_AT_ONCE * MOST_CLAIM_TOKENS * 2
Element = TypeVar("Element")
Side = Literal["output", "reference", "citation"]  # citation: a sentence of the output, with a part of its sources


@dataclass(frozen=True, slots=True)
class ClaimUnit:
    """Text of an output whose claims are checked against a source. reason: why nothing can be asked.

    claims: of a sentence that needs no extraction; cited: the passages of its source, by their positions.
    """

    output_id: str
    side: Side
    text: str
    source: tuple[str, ...]
    windows: tuple[Window, ...] = ()
    reason: str | None = None
    claims: tuple[Claim, ...] | None = None
    cited: tuple[int, ...] = ()

    @property
    def is_uncited(self) -> bool:
        """Whether it is a sentence that cites no passage of the context."""
        return self.claims is not None and not self.source


def _question(  # noqa: PLR0913 - a field each
    output_id: str,
    criterion_id: str,
    judge_digest: str,
    version: str,
    render: Callable[[], Messages],
    schema: dict[str, Any],
    max_tokens: int,
    reader: Reader,
    replicate: int = 0,
) -> ListQuestion:
    """A question with its key. judge_digest: of the judge that is asked."""
    key = claims_key(judge_digest, version, render(), replicate)
    digest = claims_prompt_digest(version)
    return ListQuestion(output_id, criterion_id, key, version, digest, render, schema, max_tokens, reader, replicate)


class AnswersReader(Protocol):
    """Reads the answers to typed questions, as their JSON."""

    def __call__(self, text: str | None, *, questions: Sequence[TypedQuestion]) -> ReadReply: ...


def typed_list(  # noqa: PLR0913 - a field each
    output_id: str,
    criterion_id: str,
    key: str,
    render: Callable[[], Messages],
    questions: tuple[TypedQuestion, ...],
    reader: AnswersReader,
    judge: AskedJudge,
    replicate: int = 0,
) -> ListQuestion:
    """Typed questions about the parts of an output, in one request. judge: the decision model that is asked."""

    def read(text: str | None, finish_reason: str | None, refusal: str | None) -> ReadReply:
        return reader(text, questions=questions)

    return ListQuestion(
        output_id,
        criterion_id,
        key,
        PARTS_PROMPT,
        file_digest(PARTS_PROMPT),
        render,
        {"name": PARTS_PROMPT, "questions": questions},
        0,
        read,
        replicate,
        questions,
        judge.ceilings or NO_CEILINGS,
    )


def claim_units(method: ClaimsMethod, output_id: str, case: Case) -> tuple[ClaimUnit, ...]:
    """Texts of a case whose claims the method checks: the output's, the reference's, or both."""
    source = tuple(passage for passage in case.passages(method.against) if fold_text(passage))
    if not source:
        return (
            ClaimUnit(output_id, "output", case.output, (), reason=f"no_{method.against}: nothing to check against"),
        )
    if method.of == "reference":
        (reference,) = case.passages("reference") or ("",)
        reason = None if reference else "no_reference: nothing to check"
        unit = _unit(output_id, "reference", reference, source)
        return (unit if reason is None else replace(unit, reason=reason),)
    if method.measure in CITATION_MEASURES:
        return tuple(_citation_units(method, output_id, case))
    units = []
    if method.measure != "recall":
        units.append(_unit(output_id, "output", case.output, source))
    if method.measure in ("recall", "f1"):
        units.append(_unit(output_id, "reference", source[0], (case.output,)))
    return tuple(units)


def _unit(output_id: str, side: Side, text: str, source: tuple[str, ...]) -> ClaimUnit:
    windows = windows_of(text)
    count = sum(len(window.sentences) for window in windows)
    if count > MOST_SENTENCES:
        reason = f"too_many_sentences: found {count:,}, at most {MOST_SENTENCES} are checked"
        return ClaimUnit(output_id, side, text, source, reason=reason)
    return ClaimUnit(output_id, side, text, source, windows)


def _citation_units(method: ClaimsMethod, output_id: str, case: Case) -> Iterator[ClaimUnit]:
    """Units of each sentence with its cited passages; for citation precision, also each citation alone and left out."""
    sentences = cited_sentences(case.output)
    if len(sentences) > MOST_SENTENCES:
        reason = f"too_many_sentences: found {len(sentences):,}, at most {MOST_SENTENCES} are checked"
        yield ClaimUnit(output_id, "output", case.output, (), reason=reason)
        return
    for number, sentence in enumerate(sentences):
        claim = Claim(number, sentence.start, sentence.stop, sentence.text, sentence.text, "verifiable")
        wanted = [sentence.cited]
        if method.measure == "citation_precision":
            wanted += citation_parts(sentence.cited)
        for cited in dict.fromkeys(wanted):
            source = tuple(case.context[position - 1] for position in cited if 0 < position <= len(case.context))
            side: Side = "output" if cited == sentence.cited else "citation"
            yield ClaimUnit(output_id, side, case.output, source, claims=(claim,), cited=cited)


def citation_parts(cited: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Single citations, then all but one citation; only the first five of a sentence."""
    first = cited[:MOST_CITATIONS] if len(cited) > 1 else ()
    without_one = [tuple(citation for citation in cited if citation != omitted) for omitted in first]
    return [*((citation,) for citation in first), *without_one]


def known_claims(method: ClaimsMethod, unit: ClaimUnit) -> tuple[Claim, ...] | None:
    """Claims of a unit that need no extraction; None if the judge has to find them."""
    if unit.claims is not None:
        return unit.claims if unit.source else ()
    return sentence_claims(unit.text) if method.precision == "sentence" else None


def extraction_questions(unit: ClaimUnit, criterion_id: str, judge_digest: str) -> Iterator[ListQuestion]:
    """One question for each window of a text."""
    for window in unit.windows:
        yield _question(
            unit.output_id,
            criterion_id,
            judge_digest,
            EXTRACT_VERSION,
            partial(render_extraction, window),
            EXTRACT_SCHEMA,
            EXTRACT_TOKENS,
            partial(read_extraction, window=window),
        )


def claim_packs(claims: Sequence[Element], size: int = CLAIMS_AT_ONCE) -> tuple[Sequence[Element], ...]:
    """Claims of a unit as they are verified: some at a time, in order. claims: the verifiable ones."""
    return tuple(claims[first : first + size] for first in range(0, len(claims), size))


def verification_question(
    unit: ClaimUnit,
    pack: Sequence[Claim],
    criterion_id: str,
    judge: AskedJudge,
    replicate: int = 0,
    *,
    can_abstain: bool = False,
) -> ListQuestion:
    """Question that verifies a pack of claims. judge: the one that is asked."""
    texts = [claim.text for claim in pack]
    if judge.is_decision:
        shown = [*render_source_state(unit.source), {"claims": texts, "can_abstain": can_abstain}]
        key = claims_key(judge.digest, PARTS_PROMPT, shown, replicate)
        typed = claim_questions(texts, key, can_abstain=can_abstain)
        render, reader = partial(render_source_state, unit.source), read_claim_answers
        return typed_list(unit.output_id, criterion_id, key, render, typed, reader, judge, replicate)
    return _question(
        unit.output_id,
        criterion_id,
        judge.digest,
        VERIFY_VERSION,
        partial(render_verification, unit.source, texts, can_abstain=can_abstain),
        verify_schema(can_abstain=can_abstain),
        VERIFY_TOKENS,
        partial(read_verification, source=unit.source, claim_count=len(texts), can_abstain=can_abstain),
        replicate,
    )


NO_OWN_STEPS = "no_steps: found no step of the agent's own, expected some"


@dataclass(frozen=True, slots=True)
class StepUnit:
    """Output whose steps are judged. reason: why nothing can be asked."""

    output_id: str
    case: Case
    windows: tuple[tuple[int, ...], ...]
    reason: str | None = None


def step_unit(asked: StepCriterion, output_id: str, case: Case, size: int) -> StepUnit:
    """Steps of an output, by question. case: with its steps read; size: steps of one question."""
    seen = case.seen(View("trajectory"))
    windows = windows_of_steps(seen, size)
    reason = None if windows else NO_STEPS if case.trajectory is None else NO_OWN_STEPS
    return StepUnit(output_id, seen, windows, reason)


def step_questions(
    asked: StepCriterion, unit: StepUnit, judge: AskedJudge, replicate: int = 0
) -> Iterator[ListQuestion]:
    """One question for each window of an output's steps. judge: the one that is asked."""
    if unit.reason is not None:
        return
    of_case, judge_digest = case_digest(unit.case), judge.digest
    if judge.is_decision:
        for steps in unit.windows:
            key = steps_key(judge_digest, asked, of_case, steps, replicate, prompt=PARTS_PROMPT)
            typed = step_questions_of(asked, steps, key)
            reader = partial(read_step_answers, asked=asked, steps=steps)
            render = partial(render_steps_state, unit.case)
            yield typed_list(unit.output_id, asked.criterion.id, key, render, typed, reader, judge, replicate)
        return
    labels = step_labels(asked, unit.case, judge_digest, of_case)
    schema = steps_schema(asked, labels)
    for steps in unit.windows:
        yield ListQuestion(
            unit.output_id,
            asked.criterion.id,
            steps_key(judge_digest, asked, of_case, steps, replicate),
            STEPS_VERSION,
            file_digest(STEPS_VERSION),
            partial(render_steps, asked, unit.case, steps, labels),
            schema,
            asked.method.max_tokens or 256 + len(steps) * TOKENS_OF_STEP,
            partial(read_steps, step_criterion=asked, case=unit.case, steps=steps, labels=labels),
            replicate,
        )
