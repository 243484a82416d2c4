"""Parser of a judge's reply: a fixed series of checks that ends with a status, never with a guessed level."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from gradebook.rubrics.prompts.prompt_text import fold_text

Shape = TypeVar("Shape", bound=BaseModel)
UselessStatus = Literal[
    "refused",
    "truncated",
    "filtered",
    "parse_error",
    "evidence_unverified",
    "abstained",
    "no_logprobs",
    "no_answer",
]
ReplyStatus = Literal["scored", UselessStatus]
ReplyFault = Literal["not_json", "unknown_label", "unverified"]
# For each token of a reply: the alternatives at its position, the sampled token first, each with its log-probability.
TokenChoices = tuple[tuple[tuple[str, float], ...], ...]

MOST_REPLY_LENGTH = 1_000_000  # characters; a longer reply is not parsed
MOST_OBJECTS_TRIED = 1_000
MOST_QUOTES_READ = 200  # quotes of a reply: each is searched, and more are no selection
MOST_QUOTES_KEPT, MOST_QUOTE_LENGTH, MOST_RATIONALE_LENGTH = 20, 1_000, 4_000
MOST_REQUIREMENTS = 60  # stored requirements of a reply
MOST_FOUND = 60  # characters of a reply that a reason quotes
# Providers' names of endings, in lower case.
_CUT_OFF = frozenset({"length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"})
_FILTERED = frozenset(
    {"content_filter", "content_filtered", "guardrail_intervened", "safety", "recitation", "prohibited_content"}
    | {"blocklist", "spii"}
)

_THOUGHT_MARKS = r"<(?P<end>/?)(?P<name>think(?:ing)?|thought|reasoning)>|\[(?P<own_end>/?)THINK\]"
# Patterns: a mark of a thought, or of the start of gpt-oss's answer; and one of these or the start of an object.
_MARK = re.compile(rf"{_THOUGHT_MARKS}|<\|channel\|>final<\|message\|>", re.IGNORECASE)
_MARK_OR_OBJECT = re.compile(rf"\{{|{_MARK.pattern}", re.IGNORECASE)
_AMBIGUOUS = re.compile(rf"[{{}}\[\]]|{_THOUGHT_MARKS}", re.IGNORECASE)  # brackets, or an unpaired mark of a thought
_FENCED = re.compile(r"\A```(?:json|JSON)?[ \t]*\r?\n(.*)\n[ \t]*```\Z", re.DOTALL)
# A string, also an unclosed one, or a comment: each is one match, so that the search is fast on any text.
_STRING_OR_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*+(?:"|\Z))|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_STRING_OR_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+(?:"|\Z))|,(?=\s*[}\]])', re.DOTALL)
_REASONS = (
    "evidence",
    "requirements",
    "rationale",
    "flaws",
)  # keys that do not affect a verdict: verdicts that differ only in them are equal
_AROUND_LABEL = " \t\r\n*_`'\"."


class Requirement(BaseModel):
    """Requirement of a case, listed by a judge. quote: passage of the output that decides it, or ""."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    requirement: str
    met: bool
    quote: str = ""


@dataclass(frozen=True, slots=True)
class ReadReply:
    """Parsed reply. level_id is None unless the status is scored or evidence_unverified.

    rationale: for a parse error, a description of the unreadable reply.
    """

    status: ReplyStatus
    level_id: str | None = None
    evidence: tuple[str, ...] = ()
    rationale: str | None = None
    distribution: Mapping[str, float] | None = None  # level id -> probability, with sum 1
    fault: ReplyFault | None = None  # reported to the judge in a repair request
    unverified: tuple[str, ...] = ()  # quotes that do not occur in the output
    requirements: tuple[Requirement, ...] = ()  # if the criterion lists requirements, in place of evidence


def unreadable(found: str) -> ReadReply:
    """Parse error of a reply that is not the requested JSON object. found: description of the reply, for people."""
    return ReadReply("parse_error", rationale=clean_text(found, MOST_RATIONALE_LENGTH), fault="not_json")


class _Reply(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)  # one key: see `_extra_fault`

    evidence: list[str]
    rationale: str
    level: str
    flaws: list[str] = []  # if the prompt asks for flaws first


class _ListingReply(_Reply):
    evidence: list[str] = []
    requirements: list[Requirement]


def read_reply(
    text: str | None,
    finish_reason: str | None,
    refusal: str | None,
    labels: Mapping[str, str | None],
    output: str,
    *,
    lists_requirements: bool = False,
) -> ReadReply:
    """Read one reply of a judge. lists_requirements: the reply has `requirements` in place of `evidence`.

    labels: label -> level id, None for "can't be judged". A level is read only from the reply's `level` field and only
    by its label, ignoring case and surrounding blanks and marks. The text is never searched: it may repeat an order in
    the output.
    """
    ending = read_ending(finish_reason, refusal)
    if ending is not None:
        return ending
    reply = parse_reply(text or "", _shape(lists_requirements))
    return reply if isinstance(reply, ReadReply) else _read_judgment(reply, labels, output)


def _shape(lists_requirements: bool) -> type[_Reply]:
    return _ListingReply if lists_requirements else _Reply


def read_judgment(
    value: object, labels: Mapping[str, str | None], output: str, *, lists_requirements: bool = False
) -> ReadReply:
    """Read one judgment of a reply with several. value: as returned by `json.loads`."""
    try:
        return _read_judgment(_shape(lists_requirements).model_validate(value), labels, output)
    except ValidationError as error:
        return unreadable(_shape_fault(error))


def _read_judgment(reply: _Reply, labels: Mapping[str, str | None], output: str) -> ReadReply:
    label = reply.level if reply.level in labels else _bare_label(reply.level, labels)
    if label is None:
        message = f"found the level {reply.level[:MOST_FOUND]!r}, expected one of the labels shown"
        return ReadReply("parse_error", rationale=clean_text(message), fault="unknown_label")
    if reply.model_extra and (fault := _extra_fault(reply.model_extra, label, labels)):
        return unreadable(fault)
    listed = reply.requirements if isinstance(reply, _ListingReply) else []
    quotes = [quote for quote in (*reply.evidence, *(entry.quote for entry in listed)) if fold_text(quote)]
    requirements = tuple(map(_clean_requirement, listed[:MOST_REQUIREMENTS]))
    unverified = tuple(find_unquoted(quotes, output)) if len(quotes) <= MOST_QUOTES_READ else tuple(quotes)
    level_id = labels[label]
    flaws_text = f"Flaws: {'; '.join(reply.flaws)}. " if reply.flaws else ""
    rationale, evidence = clean_text(flaws_text + reply.rationale, MOST_RATIONALE_LENGTH), _cut_quotes(quotes)
    if level_id is None:  # an abstention needs no quotes, so a false quote is dropped
        sources = () if unverified else evidence, rationale
        return ReadReply("abstained", None, *sources, requirements=() if unverified else requirements)
    if unverified:
        false_quotes = _cut_quotes(unverified)
        return ReadReply(
            "evidence_unverified",
            level_id,
            evidence,
            rationale,
            fault="unverified",
            unverified=false_quotes,
            requirements=requirements,
        )
    return ReadReply("scored", level_id, evidence, rationale, requirements=requirements)


def _clean_requirement(entry: Requirement) -> Requirement:
    requirement, quote = (clean_text(text, MOST_QUOTE_LENGTH) for text in (entry.requirement, entry.quote))
    return Requirement(requirement=requirement, met=entry.met, quote=quote)


def _bare_label(level: str, labels: Collection[str]) -> str | None:
    """Only label that equals a level, ignoring case and surrounding blanks and marks; None if there is none."""

    def bare(text: str) -> str:
        return fold_text(text).strip(_AROUND_LABEL).casefold()

    likely = [label for label in labels if bare(label) == bare(level)]
    return likely[0] if len(likely) == 1 else None


def _extra_fault(extra: Mapping[str, Any], label: str, labels: Collection[str]) -> str | None:
    """Reason why additional keys make a reply unreadable; None if they name no other label."""
    (key, value), *other_keys = extra.items()
    if other_keys:
        return f"found the keys {', '.join(map(repr, extra))[:MOST_FOUND]} that were not asked for"
    key_and_value = f"{key} {value}".casefold()
    if isinstance(value, dict | list) or any(other != label and other.casefold() in key_and_value for other in labels):
        return f"found the key {key[:MOST_FOUND]!r} that was not asked for, and may hold another verdict"
    return None


_REQUIREMENTS = TypeAdapter(list[Requirement])


def read_requirements(evidence: str | None) -> list[Requirement]:
    """Requirements stored as a verdict's evidence; [] if it is another kind of text."""
    if evidence is None or not evidence.startswith('[{"requirement":'):
        return []
    try:
        return _REQUIREMENTS.validate_json(evidence)
    except ValidationError:
        return []


def requirement_line(entry: Requirement) -> str:
    """Requirement in one line, for people."""
    return f"{'met' if entry.met else 'missing'}: {entry.requirement}"


def _cut_quotes(quotes: Sequence[str]) -> tuple[str, ...]:
    return tuple(clean_text(quote, MOST_QUOTE_LENGTH) for quote in quotes[:MOST_QUOTES_KEPT])


def read_ending(finish_reason: str | None, refusal: str | None) -> ReadReply | None:
    """Reason to ignore a reply: refused, truncated or filtered. None if it ended normally."""
    if refusal:
        return ReadReply("refused", rationale=clean_text(refusal, MOST_RATIONALE_LENGTH))
    if finish_reason is None or finish_reason == "stop":
        return None
    ending = finish_reason.lower()
    if ending == "refusal":
        return ReadReply("refused")
    return ReadReply("truncated") if ending in _CUT_OFF else ReadReply("filtered") if ending in _FILTERED else None


def is_quoted(quotes: Sequence[str], output: str) -> bool:
    """Whether every quote occurs in the output, as defined by `find_unquoted`."""
    return next(find_unquoted(quotes, output), None) is None


def find_unquoted(quotes: Sequence[str], output: str) -> Iterator[str]:
    """Yield the quotes that do not occur in the output: NFKC, folded whitespace, unchanged letters.

    Invisible characters (zero-width, direction marks) are ignored on both sides: an honest quote may omit them, and a
    quote of nothing else is blank. The order of letters is that of the text, not of the page. The judge sees the output
    JSON-encoded, so a quote in that encoding counts as well.
    """
    folded_output: str | None = None
    for quote in quotes:
        if quote in output:
            continue
        folded_output = fold_text(output) if folded_output is None else folded_output
        if _words_in(quote, folded_output) is None:
            yield quote


def quoted_words(quote: str, output: str) -> str | None:
    """Folded words of an output that match a quote, without JSON encoding; None if there are none."""
    return fold_text(quote) if quote in output else _words_in(quote, fold_text(output))  # folding 1 MB takes 10 ms


def _words_in(quote: str, folded_output: str) -> str | None:
    """Words of a quote in a folded output, found as they are or as a JSON-encoded part of it.

    A quotation mark at either end of the quote may belong to the encoding.
    """
    if (folded := fold_text(quote)) in folded_output:
        return folded
    starts, ends = quote.startswith('"'), quote.endswith('"')
    for text, is_there in (
        (quote, folded_output.__contains__),
        (quote[1:] if starts else None, folded_output.startswith),
        (quote[:-1] if ends else None, folded_output.endswith),
        (quote[1:-1] if starts and ends else None, folded_output.__eq__),
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


def parse_reply(text: str, shape: type[Shape]) -> Shape | ReadReply:
    """Parse a reply's JSON object, after its thought; a parse error if it does not have that shape.

    The object may stand alone, in a code fence, or between sentences. Sentences with brackets make a reply unreadable,
    as choosing one of two objects would be a guess. Comments, trailing commas and raw line breaks in a text are
    accepted, as they are not ambiguous.
    """
    try:
        return shape.model_validate(_decoded(text))
    except ValidationError as error:
        message = _shape_fault(error)
    except json.JSONDecodeError as error:
        message = f"found broken JSON: {error.msg} at line {error.lineno}, column {error.colno} of its object"
    except ValueError as error:
        message = str(error)
    except RecursionError:
        message = "found JSON that is nested too deeply"
    return unreadable(message)


def _decoded(text: str) -> object:
    """Value of a reply's only JSON object. Raises `ValueError` with a description of the reply, or `RecursionError`."""
    if len(text) > MOST_REPLY_LENGTH:
        raise ValueError(f"found {len(text):,} characters, expected at most {MOST_REPLY_LENGTH:,}")
    try:
        return _DECODER.decode(text)  # the usual case: the reply is only JSON
    except ValueError:
        pass
    body = without_thought(text).strip()
    fenced = _FENCED.match(body)
    body = fenced[1].strip() if fenced else body
    start, end = body.find("{"), body.rfind("}") + 1
    if start < 0:
        raise ValueError(f"found {'no JSON object' if body else 'an empty text'}")
    if end <= start:
        raise ValueError("found an object without its end")
    if _AMBIGUOUS.search(body[:start]) or _AMBIGUOUS.search(body[end:]):
        raise ValueError("found brackets, or a thought without its other end, around the object")
    object_text = body[start:end]
    try:
        return _DECODER.decode(object_text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            raise ValueError("found more than one object, or brackets around it") from None
    without_comments = _STRING_OR_COMMENT.sub(lambda match: match[1] or " ", object_text)
    return _LENIENT_DECODER.decode(_STRING_OR_COMMA.sub(lambda match: match[1] or "", without_comments))


def _shape_fault(error: ValidationError) -> str:
    """Sentence on the first fault of a JSON value, with its key."""
    first_error = error.errors(include_url=False)[0]
    message = first_error["msg"]
    if first_error["input"] is None:
        message = "null, or an object with a key twice"
    elif first_error["type"] == "model_type":
        message = "expected one object"
    key_path = ".".join(map(str, first_error["loc"]))[:MOST_FOUND]
    return f"found JSON of another shape: {key_path + ': ' if key_path else ''}{message}"


def without_thought(text: str) -> str:
    """Text of a reply without the model's thought before it.

    A thought is <think>..</think> or [THINK]..[/THINK]; some servers remove the first mark, then it begins with the
    text. Marks within a JSON object belong to the object.
    """
    text = text.removeprefix("\ufeff")
    if _MARK.search(text) is None:
        return text
    answers: list[str] = []
    position = start = tried_count = 0
    while mark := _MARK_OR_OBJECT.search(text, position):
        position = mark.end()
        if mark[0] == "{":
            tried_count += 1
            if tried_count <= MOST_OBJECTS_TRIED and (parsed := _object_at(text, mark.start())):
                position = parsed[1]
        elif (mark["name"] and not mark["end"]) or mark["own_end"] == "":
            ending = f"</{mark['name']}>" if mark["name"] else "[/THINK]"
            end = text.find(ending, position)
            if end < 0:
                break
            answers.append(text[start : mark.start()])
            start = position = end + len(ending)
        else:
            answers.clear()
            start = position
    return "".join((*answers, text[start:]))


def only_object(text: str, keys: Collection[str]) -> str:
    """JSON object of a text that has these keys; the text itself if there is none, or more than one verdict.

    For replies without a schema, which may contain drafts: drafts have other keys, and an object quoted
    from the judged output has none of the request's labels. Of several objects with the same verdict the last counts.
    """
    body = without_thought(text)
    decisive = [key for key in keys if key not in _REASONS] or keys
    last_object, verdicts, around, seen = text, [], [], 0
    start = body.find("{")
    for _ in range(MOST_OBJECTS_TRIED):
        if start < 0:
            break
        candidate, end = _object_at(body, start) or ({}, start + 1)
        if candidate.keys() >= set(keys):
            verdicts.append({key: candidate[key] for key in decisive})
            last_object = body[start:end]
            around.append(body[seen:start])
            seen = end
        start = body.find("{", end if candidate.keys() >= set(keys) else start + 1)
    remaining = "".join((*around, body[seen:]))
    has_another = all(f'"{key}"' in remaining or f"'{key}'" in remaining for key in keys)  # in broken JSON
    return text if has_another or any(verdict != verdicts[0] for verdict in verdicts) else last_object


def _object_at(text: str, start: int) -> tuple[dict[str, Any], int] | None:
    """JSON object that begins at a position, and its end; None if there is none."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return None if value is None else (value, end)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any] | None:
    """Build an object; None if a key is repeated: choosing one would be a guess."""
    keyed = dict(pairs)
    return keyed if len(keyed) == len(pairs) else None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"found {name}, expected a finite number")


_DECODER = json.JSONDecoder(object_pairs_hook=_distinct, parse_constant=_refuse)
_LENIENT_DECODER = json.JSONDecoder(object_pairs_hook=_distinct, parse_constant=_refuse, strict=False)


def clean_text(text: str, most: int | None = None) -> str:
    """Make a text storable, with a maximum length: half of a surrogate pair is not UTF-8, and PostgreSQL refuses
    NUL.
    """
    return text[:most].replace("\x00", "").encode("utf-8", "replace").decode()
