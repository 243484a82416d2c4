"""Parser of a judge's reply: a fixed series of checks that ends with a status, never with a guessed level."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
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
# For each token of a reply: the alternatives at its place, the sampled token first, each with its log-probability.
TokenChoices = tuple[tuple[tuple[str, float], ...], ...]

MOST_REPLY_LENGTH = 1_000_000  # characters; a longer reply is not parsed
MOST_OBJECTS_TRIED = 1_000
MOST_QUOTES_READ = 200  # a reply with more is not a selection, and each has to be searched
MOST_QUOTES_KEPT, MOST_QUOTE_LENGTH, MOST_RATIONALE_LENGTH = 20, 1_000, 4_000

_THINKING = re.compile(r"\A\s*<(think|thinking)>.*?</\1>", re.DOTALL)
_AMBIGUOUS = re.compile(r"[{}\[\]]|</?think")  # brackets, or a thought without its other end
_FENCED = re.compile(r"\A```(?:json|JSON)?[ \t]*\r?\n(.*)\n[ \t]*```\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ReadReply:
    """Parsed reply. level_id is None unless the status is scored or evidence_unverified."""

    status: ReplyStatus
    level_id: str | None = None
    evidence: tuple[str, ...] = ()
    rationale: str | None = None
    distribution: Mapping[str, float] | None = None  # level id -> probability, with sum 1
    fault: ReplyFault | None = None  # reported to the judge in a repair request
    unverified: tuple[str, ...] = ()  # quotes that do not occur in the output


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    evidence: list[str]
    rationale: str
    level: str
    flaws: list[str] = []  # of a judge that was asked for them


def read_reply(
    text: str | None, finish_reason: str | None, refusal: str | None, labels: Mapping[str, str | None], output: str
) -> ReadReply:
    """Read one reply of a judge.

    labels: label -> level id, None for "can't be judged". A level is read only from the reply's `level` field and only
    by an exact label, never searched in the text, which may repeat an order in the output.
    """
    ending = read_ending(finish_reason, refusal)
    if ending is not None:
        return ending
    return _read_judgment(parse_reply(text or "", _Reply), labels, output)


def read_judgment(given: object, labels: Mapping[str, str | None], output: str) -> ReadReply:
    """Read one judgment of a reply with several. given: as returned by `json.loads`."""
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
    named = f"Flaws: {'; '.join(reply.flaws)}. " if reply.flaws else ""
    rationale, evidence = clean_text(named + reply.rationale, MOST_RATIONALE_LENGTH), _cut_quotes(quotes)
    if level_id is None:  # its quotes decide nothing, so a false quote does not invalidate it but is dropped
        return ReadReply("abstained", None, () if unverified else evidence, rationale)
    if unverified:
        return ReadReply(
            "evidence_unverified", level_id, evidence, rationale, fault="unverified", unverified=_cut_quotes(unverified)
        )
    return ReadReply("scored", level_id, evidence, rationale)


def _cut_quotes(quotes: Sequence[str]) -> tuple[str, ...]:
    return tuple(clean_text(quote, MOST_QUOTE_LENGTH) for quote in quotes[:MOST_QUOTES_KEPT])


def read_ending(finish_reason: str | None, refusal: str | None) -> ReadReply | None:
    """Reason to ignore a reply: refused, truncated or filtered. None if it ended normally."""
    if refusal:
        return ReadReply("refused", rationale=clean_text(refusal, MOST_RATIONALE_LENGTH))
    if finish_reason == "length":
        return ReadReply("truncated")
    if finish_reason == "content_filter":
        return ReadReply("filtered")
    return None


def is_quoted(quotes: Sequence[str], output: str) -> bool:
    """Whether every quote occurs in the output, as defined by `find_unquoted`."""
    return next(find_unquoted(quotes, output), None) is None


def find_unquoted(quotes: Sequence[str], output: str) -> Iterator[str]:
    """Yield the quotes that do not occur in the output: NFKC, folded whitespace, unchanged letters.

    Invisible characters (zero-width, direction marks) are ignored on both sides: an honest quote may omit them, and a
    quote of nothing else is blank. The order of letters is that of the text, not of the page. The judge sees the output
    JSON-encoded, so a quote in that encoding counts as well.
    """
    written: str | None = None
    for quote in quotes:
        if quote in output:
            continue
        written = fold_text(output) if written is None else written
        if _words_in(quote, written) is None:
            yield quote


def quoted_words(quote: str, output: str) -> str | None:
    """Words of an output that a quote stands for, folded and without JSON encoding; None if there are none."""
    return fold_text(quote) if quote in output else _words_in(quote, fold_text(output))  # folding 1 MB takes 10 ms


def _words_in(quote: str, written: str) -> str | None:
    """Words of a quote in a folded output: as they stand, or as a JSON-encoded part of it, where a quotation mark at
    either end may be that of the encoding.
    """
    if (folded := fold_text(quote)) in written:
        return folded
    starts, ends = quote.startswith('"'), quote.endswith('"')
    for text, is_there in (
        (quote, written.__contains__),
        (quote[1:] if starts else None, written.startswith),
        (quote[:-1] if ends else None, written.endswith),
        (quote[1:-1] if starts and ends else None, written.__eq__),
    ):
        decoded = None if text is None else _decode(text)
        if decoded is not None and is_there(folded := fold_text(decoded)):
            return folded
    return None


def _decode(text: str) -> str | None:
    """Decode a text as the content of a JSON string; None if it is not one."""
    try:
        decoded = json.loads(f'"{text}"', strict=False)
    except ValueError:
        return None
    return decoded if isinstance(decoded, str) else None


def parse_reply(text: str, shape: type[Shape]) -> Shape | None:
    """Parse a reply's JSON object, after its thinking; None if it does not have that shape.

    The object may stand alone, in a fence, or between sentences. Sentences with brackets make a reply unreadable: two
    objects, or a part of a larger one, would be a guess.
    """
    if len(text) > MOST_REPLY_LENGTH:
        return None
    body = _body(text)
    try:
        try:
            parsed = _DECODER.decode(body)
        except ValueError:
            parsed = _embedded(body)
        return shape.model_validate(parsed)
    except (ValueError, RecursionError, ValidationError):
        return None


def first_object(text: str, keys: Collection[str]) -> str:
    """First balanced JSON object of a text that has exactly these keys; the text itself if there is none.

    For replies without a schema, in which a model thinks aloud: its drafts have other keys, and an object that it
    quotes from the judged output has none of the request's labels.
    """
    start = text.find("{")
    for _ in range(MOST_OBJECTS_TRIED):
        if start < 0:
            break
        try:
            found, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            found, end = None, start + 1
        if isinstance(found, dict) and found.keys() == set(keys):
            return text[start:end]
        start = text.find("{", start + 1)
    return text


def is_bare(text: str) -> bool:
    """Whether a reply is one JSON value, alone or in a fence, after its thinking."""
    try:
        _DECODER.decode(_body(text))
    except (ValueError, RecursionError):
        return False
    return True


def _body(text: str) -> str:
    body = _THINKING.sub("", text.removeprefix("\ufeff"), count=1).strip()
    fenced = _FENCED.match(body)
    return fenced[1].strip() if fenced else body


def _embedded(body: str) -> object:
    """The only JSON object between sentences. Raises `ValueError` if there is none."""
    start = body.find("{")
    if start < 0:
        raise ValueError("found no object")
    parsed, end = _DECODER.raw_decode(body, start)
    if _AMBIGUOUS.search(body[:start]) or _AMBIGUOUS.search(body[end:]):
        raise ValueError("found brackets or a thought around the object")
    return parsed


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any] | None:
    """Build an object; None if a key is repeated: choosing one would be a guess."""
    keyed = dict(pairs)
    return keyed if len(keyed) == len(pairs) else None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"found {name}, expected a finite number")


_DECODER = json.JSONDecoder(object_pairs_hook=_distinct, parse_constant=_refuse)


def clean_text(text: str, most: int | None = None) -> str:
    """Make a text storable, with a maximum length: half of a surrogate pair is not UTF-8, and PostgreSQL refuses
    NUL.
    """
    return text[:most].replace("\x00", "").encode("utf-8", "replace").decode()
