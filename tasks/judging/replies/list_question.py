"""Questions of other kinds than one level of an output: lists of claims or steps, and preferences.

A list is stored as the rationale.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from gradebook.rubrics.prompts.reply_parser import ReadReply, TokenChoices
from gradebook.tasks.judging.replies.question import Outcome, Request

Messages = list[dict[str, Any]]


class Reader(Protocol):
    """Reads a reply from its text, finish_reason and refusal."""

    def __call__(self, text: str | None, finish_reason: str | None, refusal: str | None) -> ReadReply: ...


@dataclass(frozen=True, slots=True)
class ListQuestion:
    """One question. render: its messages, which are long and written again when it is asked."""

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

    @property
    def prefix(self) -> str:
        """Output and prompt file: such questions share the first part of the prompt."""
        return f"{self.output_id} {self.version}"

    def request(self) -> Request:
        """Messages for a reply that is one list."""

        def read(
            text: str | None, finish_reason: str | None, refusal: str | None, _choices: TokenChoices | None
        ) -> ReadReply:
            return self.reader(text, finish_reason, refusal)

        return Request(self.render(), self.schema, read, self.max_tokens)

    def answer(self, outcome: Outcome) -> "ListAnswer":
        """List of the reply, if usable."""
        text = outcome.rationale if outcome.status == "scored" else None
        reason = outcome.reason if text is None else None
        told = (outcome.level_id, outcome.evidence) if text is not None else (None, None)
        paid = (outcome.request_count, outcome.paid_by, outcome.cost_usd)
        return ListAnswer(self.request_key, text, reason, *paid, *told)


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
