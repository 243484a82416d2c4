"""What is asked of a judge and what comes back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from gradebook.rubrics.model.rubric import Criterion
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
    reply_schema,
)
from gradebook.rubrics.prompts.repairs import repair_messages
from gradebook.rubrics.prompts.reply_parser import ReadReply, TokenChoices, read_reply
from gradebook.rubrics.prompts.token_probabilities import read_levels
from gradebook.tasks.judging.replies.completion import Reply

LABEL_TOKENS = 32  # of a reply that is a label in JSON and nothing else
Answered_co = TypeVar("Answered_co", covariant=True)


# How a reply is read: of its text, finish_reason, refusal and log-probabilities.
Reader = Callable[[str | None, str | None, str | None, TokenChoices | None], ReadReply]
# What a line of the journal says of a reply beyond the columns of a judgment: of replies that no ledger keeps.
Note = Callable[[Reply], dict[str, Any]]
PartsReader = Callable[[str | None, str | None, str | None], list[ReadReply]]
# The messages that ask again, of the useless reply's text and its reading.
Repair = Callable[[str, ReadReply], list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Request:
    """What a question sends, and how the reply to it is read."""

    messages: list[dict[str, Any]]
    schema: dict[str, Any] | None  # the strict JSON schema of a reply, with its name; None: any text will do
    read: Reader
    max_tokens: int | None = None  # None: as many as the judge's settings say
    is_logprobs: bool = False  # whether the reply is to come with the probabilities of its tokens
    repair: Repair | None = None  # None: a useless reply is asked for again as it was
    parts: tuple["Askable[Any]", ...] = ()  # of a pack: what is asked together; each gets a judgment of its own
    read_parts: PartsReader | None = None  # of a pack: one reading a part
    part_tokens: tuple[int | None, ...] = ()  # of a pack: max_tokens of each part
    note: Note | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)  # settings of the model that gradebook does not know


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of asking: a usable reply, or why there is none."""

    status: Literal["scored", "unscored"]
    level_id: str | None = None
    evidence: str | None = None  # JSON list of quotes
    rationale: str | None = None
    reason: str | None = None  # why unscored
    judgment_id: str | None = None  # the last reply's row; None: no reply came
    cost_usd: float | None = None  # of all replies to this question; None: unknown or none came
    request_count: int = 0
    distribution: str | None = None  # JSON object: level id -> probability
    parts: tuple["Outcome", ...] = ()  # of a pack, in the order asked
    paid_by: str | None = None  # another run, which asked the same at the same time; None: this one


class Askable(Protocol[Answered_co]):
    """A question of any kind: where its reply stands in the ledger, what it sends, and what it makes of the outcome."""

    @property
    def output_id(self) -> str:
        """The output that it is about."""

    @property
    def criterion_id(self) -> str:
        """What it asks, as the ledger calls it."""

    @property
    def request_key(self) -> str:
        """The name under which its reply is paid for once."""

    @property
    def replicate(self) -> int:
        """Which of several equal questions it is."""

    @property
    def prefix(self) -> str:
        """What its prompt begins with, by name: questions that share it are best asked one after the other."""

    @property
    def prompt_digest(self) -> str:
        """Hash of the prompt file that it is written with."""

    def request(self) -> Request:
        """What it sends, and how its reply is read."""

    def answer(self, outcome: Outcome) -> Answered_co:
        """What whoever asked is handed."""


@dataclass(frozen=True, slots=True)
class Question:
    """One criterion asked of one output. The four from case_id on are what recorded replies are found by."""

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
        """The criterion's id."""
        return self.criterion.id

    @property
    def prefix(self) -> str:
        """The output, which stands before the criterion."""
        return self.output_id

    @property
    def prompt_digest(self) -> str:
        """Hash of the judge's prompt file."""
        return prompt_digest(self.style)

    def request(self) -> Request:
        """The case and the criterion, and the labels that the reply may name."""
        labels = label_of(self.criterion, self.request_key, self.case, self.style)
        is_logprobs = self.style.reply == "logprobs"

        def read(
            text: str | None, finish_reason: str | None, refusal: str | None, choices: TokenChoices | None
        ) -> ReadReply:
            if is_logprobs:
                return read_levels(text, finish_reason, refusal, choices, labels)
            return read_reply(text, finish_reason, refusal, labels, self.case.output)

        messages = render_messages(self.case, self.criterion, self.request_key, self.style, labels)

        def repair(text: str, useless: ReadReply) -> Messages:
            return repair_messages(messages, text, useless, self.style)

        max_tokens = getattr(self.criterion.method, "max_tokens", None) or (LABEL_TOKENS if is_logprobs else None)
        return Request(messages, reply_schema(labels, self.style), read, max_tokens, is_logprobs, repair)

    def answer(self, outcome: Outcome) -> "Answer":
        """The outcome beside its question."""
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
    """What came of one criterion asked of one output: a level, or why there is none."""

    question: Question


@dataclass(frozen=True, slots=True)
class FeedbackAnswer:
    """What came of asking for a text. text: None where the reply was unusable, or none came."""

    request_key: str
    text: str | None
    request_count: int


@dataclass(frozen=True, slots=True)
class FeedbackQuestion:
    """One text to be written: about an output, or about all outputs of a model and checkpoint."""

    output_id: str
    model: str
    checkpoint: str | None
    is_group: bool
    messages: Messages
    request_key: str
    replicate: int = 0

    @property
    def criterion_id(self) -> str:
        """What stands in the ledger where a judgment has its criterion."""
        return FEEDBACK_CRITERION_ID

    @property
    def prefix(self) -> str:
        """Its own: no two texts have more than the instructions in common."""
        return self.request_key

    @property
    def prompt_digest(self) -> str:
        """Hash of the feedback's prompt file."""
        return feedback_prompt_digest()

    def request(self) -> Request:
        """The messages, and a reply that is one text."""
        return Request(self.messages, FEEDBACK_REPLY_SCHEMA, read_feedback)

    def answer(self, outcome: Outcome) -> FeedbackAnswer:
        """The text, where the reply had one."""
        text = outcome.rationale if outcome.status == "scored" else None
        return FeedbackAnswer(self.request_key, text, outcome.request_count)
