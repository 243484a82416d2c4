"""A prompt put to the model that is to be evaluated; its reply is any text."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gradebook.rubrics.model.collecting import Messages
from gradebook.rubrics.prompts.reply_parser import MOST_REPLY_LENGTH, ReadReply, TokenChoices, clean_text
from gradebook.tasks.judging.replies.completion import MOST_NAME_LENGTH, Reply
from gradebook.tasks.judging.replies.question import Outcome, Request

COLLECT_CRITERION_ID = "(output)"  # stands in the journal where a judgment has its criterion
BROKEN_OFF = ("error", "abort")  # a server's words for a text that it did not bring to an end


@dataclass(frozen=True, slots=True)
class CollectAnswer:
    """What came of asking for an output; its text is in the journal. reason: why there is none."""

    question: "CollectQuestion"
    reason: str | None
    request_count: int


@dataclass(frozen=True, slots=True)
class CollectQuestion:
    """One output to be written. messages: made when they are sent, for they may hold pictures."""

    case_id: str
    messages: Callable[[], Messages]
    prompt_digest: str
    request_key: str
    sample_index: int
    extra_body: Mapping[str, Any]

    @property
    def output_id(self) -> str:
        """What stands in the journal where a judgment has its output: there is none yet."""
        return self.case_id

    @property
    def criterion_id(self) -> str:
        """What stands in the journal where a judgment has its criterion."""
        return COLLECT_CRITERION_ID

    @property
    def replicate(self) -> int:
        """The sample; added to the seed."""
        return self.sample_index

    @property
    def prefix(self) -> str:
        """The prompt, which all samples of a case share."""
        return self.prompt_digest

    def request(self) -> Request:
        """The messages as they are, and no word on what the reply has to look like. Raises `UnreadableMedia`."""
        return Request(self.messages(), None, _read, note=_note, extra_body=self.extra_body)

    def answer(self, outcome: Outcome) -> CollectAnswer:
        """Whether there is an output now."""
        return CollectAnswer(self, None if outcome.status == "scored" else outcome.reason, outcome.request_count)


def _read(
    _text: str | None, finish_reason: str | None, _refusal: str | None, _choices: TokenChoices | None
) -> ReadReply:
    """Whatever the model said is its output, also where it refused or was cut off: that is to be evaluated."""
    return ReadReply("parse_error" if finish_reason in BROKEN_OFF else "scored")


def _note(reply: Reply) -> dict[str, Any]:
    return {
        "finish_reason": None if reply.finish_reason is None else clean_text(reply.finish_reason, MOST_NAME_LENGTH),
        "is_refusal": bool(reply.refusal),
        "is_cut": len(reply.refusal or reply.text or "") > MOST_REPLY_LENGTH,
        "endpoint": reply.base_url,
    }
