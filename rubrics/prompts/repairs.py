"""Repair requests after an unusable reply: the same messages, the reply, and its fault."""

from collections.abc import Sequence
from typing import Any

from gradebook.rubrics.prompts.prompt import Messages, PromptStyle
from gradebook.rubrics.prompts.reply_parser import ReadReply
from gradebook.rubrics.prompts.templates import read_sections
from gradebook.rubrics.prompts.untrusted_text import inert_text, shown_json

MOST_REPLY_SHOWN = 4_000  # characters
MOST_QUOTES_NAMED, MOST_QUOTE_SHOWN = 3, 300
_NO_TEXT = "(no text)"  # some endpoints refuse a turn without text


def repair_messages(
    messages: Sequence[dict[str, Any]],
    reply_text: str | None,
    read: ReadReply,
    style: PromptStyle,
    prompt_name: str | None = None,
) -> Messages:
    """Messages of a repair request. The previous messages stay unchanged, so that endpoints still have them cached.

    The reply is sent back as the judge's own turn, because chat templates with alternating roles refuse two user turns
    in a row; template marks in it are escaped. prompt_name: the prompt file, if not the style's own. read: the unusable
    judgment; for batched criteria, the first one.
    """
    sections = read_sections(prompt_name or style.prompt_name)
    fault = sections[read.fault or "not_json"]
    quotes = ", ".join(shown_json(quote[:MOST_QUOTE_SHOWN]) for quote in read.unverified[:MOST_QUOTES_NAMED])
    # Text with the judge's words is filled in last: nothing in it is a slot.
    template = sections["repair"].replace("three keys", "four keys") if style.flaws_first else sections["repair"]
    request = template.replace("{fault}", fault).replace("{quotes}", quotes)
    reply = inert_text((reply_text or "")[:MOST_REPLY_SHOWN]).strip() or _NO_TEXT
    return [*messages, {"role": "assistant", "content": reply}, {"role": "user", "content": request}]
