"""Asking again after a useless reply: the same messages, the reply, and what was wrong with it."""

from collections.abc import Sequence
from typing import Any

from gradebook.rubrics.prompts.prompt import Messages, PromptStyle
from gradebook.rubrics.prompts.reply_parser import ReadReply
from gradebook.rubrics.prompts.templates import read_sections
from gradebook.rubrics.prompts.untrusted_text import inert_text, shown_json

MOST_REPLY_SHOWN = 4_000  # characters
MOST_QUOTES_NAMED, MOST_QUOTE_SHOWN = 3, 300
_NO_TEXT = "(no text)"  # some endpoints refuse a turn without any


def repair_messages(
    messages: Sequence[dict[str, Any]],
    reply_text: str | None,
    read: ReadReply,
    style: PromptStyle,
    prompt_name: str | None = None,
) -> Messages:
    """The messages that ask again: those before stay as they are, so that endpoints still have them cached.

    The reply goes back as the judge's own turn, because chat templates that want the roles to alternate refuse two
    turns of a user; marks of such templates are made inert in it. prompt_name: the prompt file, where it is not the
    style's own; of a pack, read is the first useless judgment.
    """
    sections = read_sections(prompt_name or style.prompt_name)
    fault = sections[read.fault or "not_json"]
    quotes = ", ".join(shown_json(quote[:MOST_QUOTE_SHOWN]) for quote in read.unverified[:MOST_QUOTES_NAMED])
    # What holds the judge's words is filled in last: nothing in them is a slot.
    request = sections["repair"].replace("{fault}", fault).replace("{quotes}", quotes)
    reply = inert_text((reply_text or "")[:MOST_REPLY_SHOWN]).strip() or _NO_TEXT
    return [*messages, {"role": "assistant", "content": reply}, {"role": "user", "content": request}]
