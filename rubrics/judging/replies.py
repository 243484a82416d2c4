"""Reading a judge's reply: one ladder, and at its foot a status, never a guessed level."""

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

Shape = TypeVar("Shape", bound=BaseModel)
ReplyStatus = Literal["scored", "refused", "truncated", "filtered", "parse_error", "evidence_unverified"]

_THINKING = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_FENCED = re.compile(r"\A```(?:json|JSON)?[ \t]*\n(.*)\n[ \t]*```\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ReadReply:
    """What a reply says. level_id is None unless the status is scored or evidence_unverified."""

    status: ReplyStatus
    level_id: str | None = None
    evidence: tuple[str, ...] = ()
    rationale: str | None = None


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    evidence: list[str]
    rationale: str
    level: str


def read_reply(
    text: str | None, finish_reason: str | None, refusal: str | None, labels: Mapping[str, str], output: str
) -> ReadReply:
    """Read one reply of a judge.

    labels: label -> level id. A level comes only from the reply's `level` field and only by an exact label: a level
    is never searched for in the text, which may repeat what the output ordered.
    """
    ending = read_ending(finish_reason, refusal)
    if ending is not None:
        return ending
    reply = parse_reply(text or "", _Reply)
    if reply is None or reply.level not in labels:
        return ReadReply("parse_error")
    quotes = tuple(clean_text(quote) for quote in reply.evidence if quote.strip())
    status: ReplyStatus = "scored" if is_quoted(quotes, output) else "evidence_unverified"
    return ReadReply(status, labels[reply.level], quotes, clean_text(reply.rationale))


def read_ending(finish_reason: str | None, refusal: str | None) -> ReadReply | None:
    """Why a reply is not worth reading: refused, cut off, or filtered. None where it ended as it should."""
    if refusal:
        return ReadReply("refused", rationale=clean_text(refusal))
    if finish_reason == "length":
        return ReadReply("truncated")
    if finish_reason == "content_filter":
        return ReadReply("filtered")
    return None


def is_quoted(quotes: tuple[str, ...], output: str) -> bool:
    """Whether every quote occurs in the output: NFKC, whitespace folded, letters as they are.

    The judge is shown the output JSON-encoded, so a quote in that writing counts as well.
    """
    if not quotes:
        return True
    written = _fold(output)
    encoded = _fold(json.dumps(output, ensure_ascii=False))
    return all(_fold(quote) in written or _fold(quote) in encoded for quote in quotes)


def _fold(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).split())


def parse_reply(text: str, shape: type[Shape]) -> Shape | None:
    """Read a reply's JSON object, bare or fenced, after its thinking; None where it is not of that shape."""
    body = _THINKING.sub("", text, count=1).strip()
    fenced = _FENCED.match(body)
    try:
        return shape.model_validate(json.loads(fenced[1] if fenced else body, object_pairs_hook=_distinct))
    except (ValueError, RecursionError, ValidationError):
        return None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key given twice: which one counts would be a guess."""
    keyed = dict(pairs)
    if len(keyed) != len(pairs):
        raise ValueError("a key was given twice")
    return keyed


def clean_text(text: str) -> str:
    """Make a text writable as UTF-8: lone surrogates, legal in JSON, are not."""
    return text.encode("utf-8", "replace").decode()
