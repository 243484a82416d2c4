"""Reading a judge's reply: one ladder, and at its foot a status, never a guessed level."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from gradebook.rubrics.prompts.untrusted_text import fold_text

Shape = TypeVar("Shape", bound=BaseModel)
UselessStatus = Literal[
    "refused",
    "truncated",
    "filtered",
    "parse_error",
    "evidence_unverified",
    "abstained",
    "no_logprobs",
]
ReplyStatus = Literal["scored", UselessStatus]
ReplyFault = Literal["not_json", "unknown_label", "unverified"]
# For each token of a reply: what could have stood there, the token that does first, each with its log-probability.
TokenChoices = tuple[tuple[tuple[str, float], ...], ...]

MOST_REPLY_LENGTH = 1_000_000  # characters; a longer reply is not parsed
MOST_QUOTES_READ = 200  # a reply with more is no selection, and each has to be searched for
MOST_QUOTES_KEPT, MOST_QUOTE_LENGTH, MOST_RATIONALE_LENGTH = 20, 1_000, 4_000

_THINKING = re.compile(r"\A\s*<(think|thinking)>.*?</\1>", re.DOTALL)
_FENCED = re.compile(r"\A```(?:json|JSON)?[ \t]*\r?\n(.*)\n[ \t]*```\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ReadReply:
    """What a reply says. level_id is None unless the status is scored or evidence_unverified."""

    status: ReplyStatus
    level_id: str | None = None
    evidence: tuple[str, ...] = ()
    rationale: str | None = None
    distribution: Mapping[str, float] | None = None  # level id -> probability, adding up to 1
    fault: ReplyFault | None = None  # what a judge that is asked again has to be told
    unverified: tuple[str, ...] = ()  # the quotes that do not occur in the output


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    evidence: list[str]
    rationale: str
    level: str


def read_reply(
    text: str | None, finish_reason: str | None, refusal: str | None, labels: Mapping[str, str | None], output: str
) -> ReadReply:
    """Read one reply of a judge.

    labels: label -> level id, None for "can't be judged". A level comes only from the reply's `level` field and only
    by an exact label: a level is never searched for in the text, which may repeat what the output ordered.
    """
    ending = read_ending(finish_reason, refusal)
    if ending is not None:
        return ending
    return _read_judgment(parse_reply(text or "", _Reply), labels, output)


def read_judgment(given: object, labels: Mapping[str, str | None], output: str) -> ReadReply:
    """Read one judgment out of a reply that holds several. given: what `json.loads` made of it."""
    try:
        return _read_judgment(_Reply.model_validate(given), labels, output)
    except ValidationError:
        return ReadReply("parse_error", fault="not_json")


def _read_judgment(reply: _Reply | None, labels: Mapping[str, str | None], output: str) -> ReadReply:
    if reply is None:
        return ReadReply("parse_error", fault="not_json")
    if reply.level not in labels:
        return ReadReply("parse_error", fault="unknown_label")
    quotes = [quote for quote in reply.evidence if fold_text(quote)]
    unverified = tuple(find_unquoted(quotes, output)) if len(quotes) <= MOST_QUOTES_READ else tuple(quotes)
    level_id = labels[reply.level]
    rationale, evidence = clean_text(reply.rationale, MOST_RATIONALE_LENGTH), _kept(quotes)
    if level_id is None:  # what it quotes decides nothing, so a false quote spoils nothing; it is not kept
        return ReadReply("abstained", None, () if unverified else evidence, rationale)
    if unverified:
        return ReadReply(
            "evidence_unverified", level_id, evidence, rationale, fault="unverified", unverified=_kept(unverified)
        )
    return ReadReply("scored", level_id, evidence, rationale)


def _kept(quotes: Sequence[str]) -> tuple[str, ...]:
    return tuple(clean_text(quote, MOST_QUOTE_LENGTH) for quote in quotes[:MOST_QUOTES_KEPT])


def read_ending(finish_reason: str | None, refusal: str | None) -> ReadReply | None:
    """Why a reply is not worth reading: refused, cut off, or filtered. None where it ended as it should."""
    if refusal:
        return ReadReply("refused", rationale=clean_text(refusal, MOST_RATIONALE_LENGTH))
    if finish_reason == "length":
        return ReadReply("truncated")
    if finish_reason == "content_filter":
        return ReadReply("filtered")
    return None


def is_quoted(quotes: Sequence[str], output: str) -> bool:
    """Whether every quote occurs in the output, as `find_unquoted` has it."""
    return next(find_unquoted(quotes, output), None) is None


def find_unquoted(quotes: Sequence[str], output: str) -> Iterator[str]:
    """The quotes that do not occur in the output: NFKC, whitespace folded, letters as they are.

    Characters that show nothing (zero-width, marks of direction) count on neither side: an honest quote may leave them
    out, and one of nothing else is blank. The order of letters is that of the text, not of the page. The judge is
    shown the output JSON-encoded, so a quote in that writing counts as well.
    """
    written: str | None = None
    for quote in quotes:
        if quote in output:
            continue
        written = fold_text(output) if written is None else written
        if fold_text(quote) not in written and not _is_encoded(quote, written):
            yield quote


def _is_encoded(quote: str, written: str) -> bool:
    """Whether a quote is JSON of what stands in the output; a quotation mark at either end may be that of the text."""
    starts, ends = quote.startswith('"'), quote.endswith('"')
    for text, is_there in (
        (quote, written.__contains__),
        (quote[1:] if starts else None, written.startswith),
        (quote[:-1] if ends else None, written.endswith),
        (quote[1:-1] if starts and ends else None, written.__eq__),
    ):
        decoded = None if text is None else _decode(text)
        if decoded is not None and is_there(fold_text(decoded)):
            return True
    return False


def _decode(text: str) -> str | None:
    """The text that stands in JSON as this one; None where none does."""
    try:
        decoded = json.loads(f'"{text}"', strict=False)
    except ValueError:
        return None
    return decoded if isinstance(decoded, str) else None


def parse_reply(text: str, shape: type[Shape]) -> Shape | None:
    """Read a reply's JSON object, bare or fenced, after its thinking; None where it is not of that shape."""
    if len(text) > MOST_REPLY_LENGTH:
        return None
    body = _THINKING.sub("", text.removeprefix("\ufeff"), count=1).strip()
    fenced = _FENCED.match(body)
    try:
        parsed = json.loads(fenced[1] if fenced else body, object_pairs_hook=_distinct, parse_constant=_refuse)
        return shape.model_validate(parsed)
    except (ValueError, RecursionError, ValidationError):
        return None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any] | None:
    """An object; None where a key is given twice: which one counts would be a guess."""
    keyed = dict(pairs)
    return keyed if len(keyed) == len(pairs) else None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"found {name}, expected a finite number")


def clean_text(text: str, most: int | None = None) -> str:
    """Make a text writable, and at most so long: half of a surrogate pair is no UTF-8, and PostgreSQL takes no NUL."""
    return text[:most].replace("\x00", "").encode("utf-8", "replace").decode()
