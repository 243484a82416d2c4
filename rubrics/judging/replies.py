"""Reading a judge's reply: one ladder, and at its foot a status, never a guessed level."""

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

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
    if refusal:
        return ReadReply("refused", rationale=_clean(refusal))
    if finish_reason == "length":
        return ReadReply("truncated")
    if finish_reason == "content_filter":
        return ReadReply("filtered")
    reply = _parse(text or "")
    if reply is None or reply.level not in labels:
        return ReadReply("parse_error")
    quotes = tuple(_clean(quote) for quote in reply.evidence if quote.strip())
    status: ReplyStatus = "scored" if is_quoted(quotes, output) else "evidence_unverified"
    return ReadReply(status, labels[reply.level], quotes, _clean(reply.rationale))


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


def _parse(text: str) -> _Reply | None:
    body = _THINKING.sub("", text, count=1).strip()
    fenced = _FENCED.match(body)
    try:
        return _Reply.model_validate(json.loads(fenced[1] if fenced else body, object_pairs_hook=_distinct))
    except (ValueError, RecursionError, ValidationError):
        return None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key given twice: which one counts would be a guess."""
    keyed = dict(pairs)
    if len(keyed) != len(pairs):
        raise ValueError("a key was given twice")
    return keyed


def _clean(text: str) -> str:
    """Lone surrogates, legal in JSON, can't be written as UTF-8."""
    return text.encode("utf-8", "replace").decode()
