"""Questions for a judge and their outcomes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeVar

from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.decisions import TypedQuestion
from gradebook.rubrics.prompts.distributions import read_levels
from gradebook.rubrics.prompts.feedback import (
    FEEDBACK_CRITERION_ID,
    FEEDBACK_REPLY_SCHEMA,
    Messages,
    feedback_prompt_digest,
    read_feedback,
)
from gradebook.rubrics.prompts.prompt import (
    DEFAULT_STYLE,
    Case,
    PromptStyle,
    label_of,
    prompt_digest,
    render_messages,
    repair_messages,
    reply_schema,
    view_of,
)
from gradebook.rubrics.prompts.reply_parser import ReadReply, TokenChoices, read_reply
from gradebook.tasks.judging.replies.completion import Reply

LABEL_TOKENS = 32  # of a reply that is only a label in JSON
Answered_co = TypeVar("Answered_co", covariant=True)


# Reads a reply from its text, finish_reason, refusal and log-probabilities.
Reader = Callable[[str | None, str | None, str | None, TokenChoices | None], ReadReply]
# Extra journal columns of a reply that is not stored in the ledger.
Note = Callable[[Reply], dict[str, Any]]
PartsReader = Callable[[str | None, str | None, str | None], list[ReadReply]]
# Messages that ask again, from the text and the reading of an unusable reply.
Repair = Callable[[str, ReadReply], list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Request:
    """Messages of a question, and how its reply is read."""

    messages: list[dict[str, Any]]
    schema: dict[str, Any] | None  # strict JSON schema of a reply, with its name; None: any text
    read: Reader
    max_tokens: int | None = None  # None: as in the judge's settings
    is_logprobs: bool = False  # whether log-probabilities are requested
    repair: Repair | None = None  # None: an unusable reply is requested again unchanged
    parts: tuple["Askable[Any]", ...] = ()  # batched criteria, each with its own judgment
    read_parts: PartsReader | None = None  # batched criteria: one reading per part
    part_tokens: tuple[int | None, ...] = ()  # batched criteria: max_tokens of each part
    note: Note | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)  # model settings unknown to gradebook
    is_shared: bool = False  # whether other requests begin with the same case, so that a cache of it pays
    is_embedding: bool = False  # the contents of the messages are texts to embed
    questions: tuple[TypedQuestion, ...] = ()  # about the state, which is the only message; `schema` has their JSON


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a question: a usable reply, or why there is none."""

    status: Literal["scored", "unscored"]
    level_id: str | None = None
    evidence: str | None = None  # JSON list of quotes, or of requirements
    rationale: str | None = None
    reason: str | None = None  # why unscored
    judgment_id: str | None = None  # row of the last reply; None: no reply
    cost_usd: float | None = None  # of all replies to this question; None: unknown or no reply
    request_count: int = 0
    distribution: str | None = None  # JSON object: level id -> probability
    parts: tuple["Outcome", ...] = ()  # of batched criteria, in order
    paid_by: str | None = None  # concurrent run that asked the same; None: this run
    is_too_long: bool = False  # a request with less may be answered


class Askable(Protocol[Answered_co]):
    """Question of any kind: its place in the ledger, its request, and its answer from an outcome."""

    @property
    def output_id(self) -> str:
        """Output that the question is about."""

    @property
    def criterion_id(self) -> str:
        """Criterion, as named in the ledger."""

    @property
    def request_key(self) -> str:
        """Key under which the reply is paid for once."""

    @property
    def replicate(self) -> int:
        """Number among equal questions."""

    @property
    def prefix(self) -> str:
        """Name of the prompt's first part: questions that share it are best asked in sequence."""

    @property
    def prompt_digest(self) -> str:
        """Digest of the prompt file."""

    def request(self) -> Request:
        """Messages to send, and how the reply is read."""

    def answer(self, outcome: Outcome) -> Answered_co:
        """Answer for the caller."""


@dataclass(frozen=True, slots=True)
class Question:
    """One criterion asked of one output. Recorded replies are found by the four fields from case_id on."""

    output_id: str
    criterion: Criterion
    case: Case
    request_key: str
    replicate: int = 0
    case_id: str = ""
    model: str = ""
    checkpoint: str | None = None
    sample_index: int = 0
    style: PromptStyle = DEFAULT_STYLE

    @property
    def criterion_id(self) -> str:
        return self.criterion.id

    @property
    def prefix(self) -> str:
        """Id of the output, which precedes the criterion in the prompt, and what is shown of it."""
        return " ".join(map(str, (self.output_id, self.criterion.hears_audio, *view_of(self.criterion))))

    @property
    def prompt_digest(self) -> str:
        """Digest of the judge's prompt file."""
        return prompt_digest(self.style.of(self.criterion), self.case.sees)

    def request(self) -> Request:
        """Messages with the case and the criterion, and the labels that the reply may name."""
        style = self.style.of(self.criterion)
        labels = label_of(self.criterion, self.request_key, self.case, style)
        is_logprobs = style.reply == "logprobs"
        is_listing = style.lists_requirements

        def read(
            text: str | None, finish_reason: str | None, refusal: str | None, choices: TokenChoices | None
        ) -> ReadReply:
            if is_logprobs:
                return read_levels(text, finish_reason, refusal, choices, labels)
            quotable = self.case.quotable
            return read_reply(text, finish_reason, refusal, labels, quotable, lists_requirements=is_listing)

        messages = render_messages(self.case, self.criterion, self.request_key, style, labels)

        def repair(text: str, useless: ReadReply) -> Messages:
            return repair_messages(messages, text, useless, style)

        max_tokens = getattr(self.criterion.method, "max_tokens", None) or (LABEL_TOKENS if is_logprobs else None)
        return Request(messages, reply_schema(labels, style), read, max_tokens, is_logprobs, repair)

    def answer(self, outcome: Outcome) -> "Answer":
        """Pair the outcome with its question."""
        return Answer(
            outcome.status,
            outcome.level_id,
            outcome.evidence,
            outcome.rationale,
            outcome.reason,
            outcome.judgment_id,
            outcome.cost_usd,
            outcome.request_count,
            outcome.distribution,
            paid_by=outcome.paid_by,
            question=self,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Outcome):
    """Outcome of one criterion asked of one output: a level, or why there is none."""

    question: Question


@dataclass(frozen=True, slots=True)
class FeedbackAnswer:
    """Outcome of asking for a text. text: None if the reply was unusable or missing."""

    request_key: str
    text: str | None
    request_count: int


@dataclass(frozen=True, slots=True)
class FeedbackQuestion:
    """One text to write: about an output, or about all outputs of a model and checkpoint."""

    output_id: str
    model: str
    checkpoint: str | None
    is_group: bool
    messages: Messages
    request_key: str
    replicate: int = 0

    @property
    def criterion_id(self) -> str:
        """Fixed text in place of a criterion's id in the ledger."""
        return FEEDBACK_CRITERION_ID

    @property
    def prefix(self) -> str:
        """The request key: texts share only the instructions."""
        return self.request_key

    @property
    def prompt_digest(self) -> str:
        """Digest of the feedback's prompt file."""
        return feedback_prompt_digest()

    def request(self) -> Request:
        """Messages for a reply that is one text."""
        return Request(self.messages, FEEDBACK_REPLY_SCHEMA, read_feedback)

    def answer(self, outcome: Outcome) -> FeedbackAnswer:
        """Text of the reply, if usable."""
        text = outcome.rationale if outcome.status == "scored" else None
        return FeedbackAnswer(self.request_key, text, outcome.request_count)


def unread(question: Askable[Any]) -> Askable[Any]:
    """Question without its images and sounds: its reply is paid for, and they may be gone."""
    return replace(question, case=question.case.unread) if isinstance(question, Question) else question
