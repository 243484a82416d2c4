"""Claims of a text, checked against a source: the two questions, their keys and their parsed replies.

A judge lists the claims of numbered sentences, then decides for up to four claims at a time whether the source
supports them, with a quote. Code decides what counts: a claim with words that are not in its sentence is dropped, and a
claim whose quote is not in the source is unverified. Untrusted text enters JSON-encoded (`rubrics.prompts.prompt`).
"""

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from gradebook.rubrics.model.json_values import digest_of
from gradebook.rubrics.prompts.prompt_text import fold_text, shown_json
from gradebook.rubrics.prompts.reply_parser import (
    ReadReply,
    clean_text,
    is_quoted,
    parse_reply,
    quoted_words,
    read_ending,
    unreadable,
)
from gradebook.rubrics.text.sentences import Sentence, split_sentences

EXTRACT_VERSION, VERIFY_VERSION = "claims_extract_v1", "claims_verify_v1"
WINDOW = 20  # sentences per question
CLAIMS_AT_ONCE = 4  # claims verified per question
MOST_OF_SENTENCE = 8  # claims of a sentence, or one per 20 characters; a reply with more is unreadable
MOST_CLAIM_LENGTH = 2_000  # characters of a claim
LEAST_QUOTE = 8  # columns of a quote that counts as evidence, or a whole passage; wide characters take two columns

Kind = Literal["verifiable", "opinion", "ambiguous"]
ClaimVerdict = Literal["supported", "contradicted", "not_in_source", "unverified", "abstained"]
RANKED_VERDICTS: tuple[ClaimVerdict, ...] = ("contradicted", "unverified", "not_in_source", "supported")  # worst first
Messages = list[dict[str, str]]
_TEXTS = Path(__file__).parent / "texts"
_QUOTED = ("supported", "contradicted")  # verdicts with a quote that code has verified
_USER_MARK = "=== user ===\n"
_MARKS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Claim:
    """Claim of a text. start, stop: range of its words in the text; sentence: number of its sentence, from 0."""

    sentence: int
    start: int
    stop: int
    span: str
    text: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class CheckedClaim:
    """Verdict of a judge on a claim, checked by code. quote: words of the source, or empty.

    probabilities: of the verdicts, by name, as a decision model gives them; None of a judge that writes.
    """

    verdict: ClaimVerdict
    quote: str
    probabilities: Mapping[str, float] | None = None


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _ClaimEntry(_Reply):
    sentence: int
    span: str
    claim: str
    kind: Kind


class _Claims(_Reply):
    claims: list[_ClaimEntry]


class _VerdictEntry(_Reply):
    claim: int
    quote: str
    verdict: Literal["supported", "contradicted", "not_in_source", "cannot_tell"]


class _Verdicts(_Reply):
    verdicts: list[_VerdictEntry]


def _schema(name: str, entries: str, properties: dict[str, Any]) -> dict[str, Any]:
    item = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    listed = {"type": "array", "items": item}
    body = {"type": "object", "properties": {entries: listed}, "required": [entries], "additionalProperties": False}
    return {"name": name, "strict": True, "schema": body}


EXTRACT_SCHEMA = _schema(
    "claims",
    "claims",
    {
        "sentence": {"type": "integer"},
        "span": {"type": "string"},
        "claim": {"type": "string"},
        "kind": {"type": "string", "enum": ["verifiable", "opinion", "ambiguous"]},
    },
)
ABSTAINING = "Where the passages leave it open how to decide, the verdict is `cannot_tell`, with an empty quote.\n\n"


@dataclass(frozen=True, slots=True)
class Window:
    """Sentences of one extraction. first: number of the first sentence in the text; before: the sentence before it."""

    first: int
    sentences: tuple[Sentence, ...]
    before: str | None = None


def windows_of(text: str) -> tuple[Window, ...]:
    """Windows of a text's sentences; empty if it has no sentence."""
    sentences = split_sentences(text)
    return tuple(
        Window(first, sentences[first : first + WINDOW], sentences[first - 1].text if first else None)
        for first in range(0, len(sentences), WINDOW)
    )


def sentence_claims(text: str) -> tuple[Claim, ...]:
    """Each sentence of a text as one claim, for a check without an extraction."""
    return tuple(
        Claim(number, sentence.start, sentence.stop, sentence.text, sentence.text, "verifiable")
        for number, sentence in enumerate(split_sentences(text))
    )


def render_extraction(window: Window) -> Messages:
    """Messages that ask for the claims of a window; sentences are numbered from 1."""
    content: dict[str, Any] = {
        "sentences": {str(number): sentence.text for number, sentence in enumerate(window.sentences, 1)}
    }
    if window.before is not None:
        content = {"before": window.before, **content}
    return _messages(EXTRACT_VERSION, text=shown_json(content))


def read_extraction(text: str | None, finish_reason: str | None, refusal: str | None, window: Window) -> ReadReply:
    """Read one list of claims. rationale: JSON list of the `Claim`s; unverified: words that are not in their sentence,
    which are dropped.
    """
    ending = read_ending(finish_reason, refusal)
    if ending is not None:
        return ending
    reply = parse_reply(text or "", _Claims)
    if isinstance(reply, ReadReply):
        return reply
    if len(reply.claims) > _most_claims(window):
        return unreadable(f"found {len(reply.claims):,} claims, expected at most {_most_claims(window):,}")
    claims: list[dict[str, Any]] = []
    dropped: list[str] = []
    for listed in reply.claims:
        index = listed.sentence - 1
        sentence = window.sentences[index] if 0 <= index < len(window.sentences) else None
        is_there = sentence is not None and fold_text(listed.span) and is_quoted([listed.span], sentence.text)
        if sentence is None or not is_there or not fold_text(listed.claim):
            dropped.append(clean_text(listed.span, MOST_CLAIM_LENGTH))
            continue
        claims.append(
            {
                "sentence": index,
                "span": clean_text(listed.span, MOST_CLAIM_LENGTH),
                "text": clean_text(listed.claim, MOST_CLAIM_LENGTH),
                "kind": listed.kind,
            }
        )
    claims_json = json.dumps({"claims": claims, "dropped": len(dropped)}, ensure_ascii=False)
    return ReadReply("scored", rationale=claims_json, unverified=tuple(dropped))


def claims_of(stored: str, window: Window) -> tuple[tuple[Claim, ...], int]:
    """Claims of a stored extraction, and the number of those that were dropped.

    window: of the current text. Another text with the same sentences at other positions can share the reply.
    """
    parsed = json.loads(stored)
    return tuple(_claim_at(claim, window) for claim in parsed["claims"]), int(parsed["dropped"])


def _claim_at(stored: dict[str, Any], window: Window) -> Claim:
    span = stored["span"]
    index = stored["sentence"] % WINDOW  # the first replies were stored with the number in their text
    sentence = window.sentences[index]
    offset = sentence.text.find(span)
    start = sentence.start + max(offset, 0)
    stop = start + len(span) if offset >= 0 else sentence.stop
    return Claim(window.first + index, start, stop, span, stored["text"], stored["kind"])


def _most_claims(window: Window) -> int:
    return sum(max(MOST_OF_SENTENCE, len(sentence.text) // 20) for sentence in window.sentences)


@cache
def verify_schema(*, can_abstain: bool) -> dict[str, Any]:
    """Schema of a reply with verdicts on claims."""
    verdicts = ["supported", "contradicted", "not_in_source", *(["cannot_tell"] if can_abstain else [])]
    verdict = {"type": "string", "enum": verdicts}
    properties = {"claim": {"type": "integer"}, "quote": {"type": "string"}, "verdict": verdict}
    return _schema("claim_verdicts", "verdicts", properties)


def render_verification(source: Sequence[str], claims: Sequence[str], *, can_abstain: bool = False) -> Messages:
    """Messages that ask whether a source supports claims; the source comes first, so that endpoints can cache it."""
    numbered = {str(number): claim for number, claim in enumerate(claims, 1)}
    abstain = ABSTAINING if can_abstain else ""
    return _messages(VERIFY_VERSION, abstain=abstain, source=shown_json(list(source)), claims=shown_json(numbered))


def read_verification(
    text: str | None,
    finish_reason: str | None,
    refusal: str | None,
    source: Sequence[str],
    claim_count: int,
    *,
    can_abstain: bool = False,
) -> ReadReply:
    """Read one list of verdicts, one per claim. rationale: JSON list of `CheckedClaim`s.

    A verdict whose quote is not in one passage of the source is `unverified`.
    """
    ending = read_ending(finish_reason, refusal)
    if ending is not None:
        return ending
    reply = parse_reply(text or "", _Verdicts)
    if isinstance(reply, ReadReply):
        return reply
    numbers = [entry.claim for entry in reply.verdicts]
    if sorted(numbers) != list(range(1, claim_count + 1)):
        return unreadable(f"found verdicts on the claims {numbers}, expected one on each of 1 to {claim_count}")
    if not can_abstain and any(entry.verdict == "cannot_tell" for entry in reply.verdicts):
        return unreadable("found the verdict cannot_tell, which was not offered")
    checked_claims = [
        {"verdict": verdict, "quote": clean_text(entry.quote, MOST_CLAIM_LENGTH) if verdict in _QUOTED else ""}
        for entry in sorted(reply.verdicts, key=lambda said: said.claim)
        for verdict in [_confirmed(entry, source)]
    ]
    return ReadReply("scored", rationale=json.dumps(checked_claims, ensure_ascii=False))


def verdicts_of(stored: str) -> tuple[CheckedClaim, ...]:
    """Verdicts of a stored verification, in the order of its claims."""
    return tuple(
        CheckedClaim(verdict["verdict"], verdict["quote"], verdict.get("probabilities"))
        for verdict in json.loads(stored)
    )


def _confirmed(entry: _VerdictEntry, source: Sequence[str]) -> ClaimVerdict:
    if entry.verdict == "cannot_tell":
        return "abstained"
    if entry.verdict == "not_in_source":
        return "not_in_source"
    return entry.verdict if any(_is_evidence(entry.quote, passage) for passage in source) else "unverified"


def _is_evidence(quote: str, passage: str) -> bool:
    """Whether a quote is in a passage and long enough to be evidence: marks and blanks in a row count as one."""
    words = quoted_words(quote, passage)
    plain = "" if words is None else _MARKS.sub(" ", words).strip()
    width = sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in plain)
    return width >= LEAST_QUOTE or (plain != "" and words == fold_text(passage))


def claims_key(judge_digest: str, version: str, messages: Messages, replicate: int = 0) -> str:
    """Key under which a question about claims is paid for once, 32 hex digits: judge, prompt file, shown content."""
    content = json.dumps(messages, ensure_ascii=False)
    return digest_of(f"claims|{judge_digest}|{claims_prompt_digest(version)}|{digest_of(content)}|{replicate}")


@lru_cache(maxsize=4)
def claims_prompt_digest(version: str) -> str:
    """Digest of a prompt file, 32 hex digits."""
    return digest_of(_path(version).read_bytes())


@lru_cache(maxsize=4)
def _template(version: str) -> tuple[str, str]:
    system, _, user = _path(version).read_text("utf-8").partition(_USER_MARK)
    return system.strip(), user.strip()


def _path(version: str) -> Path:
    return _TEXTS / f"{version}.txt"


def _messages(version: str, **slots: str) -> Messages:
    """Messages of a prompt file.

    Slots are filled from left to right, so that content of a slot can't fill a later slot.
    """
    system, remaining = _template(version)
    texts: list[str] = []
    for name, value in slots.items():
        before, _, remaining = remaining.partition(f"{{{name}}}")
        texts += [before, value]
    return [{"role": "system", "content": system}, {"role": "user", "content": "".join([*texts, remaining])}]
