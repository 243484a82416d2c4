"""Question of a collection: a prompt put to the model under evaluation, whose reply is any text."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gradebook.rubrics.model.collecting import Messages
from gradebook.rubrics.prompts.reply_parser import MOST_REPLY_LENGTH, ReadReply, TokenChoices, clean_text
from gradebook.tasks.judging.replies.completion import MOST_NAME_LENGTH, Reply
from gradebook.tasks.judging.replies.question import Outcome, Request

COLLECT_CRITERION_ID = "(output)"  # in place of a criterion's id in the journal


@dataclass(frozen=True, slots=True)
class CollectAnswer:
    """Result of asking for an output; the text is in the journal. reason: why there is none."""

    question: "CollectQuestion"
    reason: str | None
    request_count: int


@dataclass(frozen=True, slots=True)
class CollectQuestion:
    """One output to collect. messages: rendered when sent, as they may contain images."""

    case_id: str
    messages: Callable[[], Messages]
    prompt_digest: str
    request_key: str
    sample_index: int

    @property
    def output_id(self) -> str:
        """Id of the case, in place of an output's id in the journal."""
        return self.case_id

    @property
    def criterion_id(self) -> str:
        """Fixed text in place of a criterion's id in the journal."""
        return COLLECT_CRITERION_ID

    @property
    def replicate(self) -> int:
        """Sample index, added to the seed."""
        return self.sample_index

    @property
    def prefix(self) -> str:
        """Digest of the prompt, which all samples of a case share."""
        return self.prompt_digest

    def request(self) -> Request:
        """Messages as they are, without a format for the reply. Raises `UnreadableMedia`."""
        return Request(self.messages(), None, _read, note=_note)

    def answer(self, outcome: Outcome) -> CollectAnswer:
        """Whether the output is now available, and why not."""
        return CollectAnswer(self, None if outcome.status == "scored" else outcome.reason, outcome.request_count)


def _read(
    _text: str | None, _finish_reason: str | None, _refusal: str | None, _choices: TokenChoices | None
) -> ReadReply:
    """Accept any text as the output, also a refusal or a cut text: both are to be evaluated."""
    return ReadReply("scored")


def _note(reply: Reply) -> dict[str, Any]:
    return {
        "finish_reason": None if reply.finish_reason is None else clean_text(reply.finish_reason, MOST_NAME_LENGTH),
        "is_refusal": bool(reply.refusal),
        "is_cut": len(reply.refusal or reply.text or "") > MOST_REPLY_LENGTH,
        "endpoint": reply.base_url,
    }
