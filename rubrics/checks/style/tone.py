"""Checks of tone: profanity, unwanted wording, refusals and references to being an AI."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from gradebook.rubrics.check_kit.check import (
    CheckSettings,
    CheckVerdicts,
    Example,
    RowFinding,
    gather_rows,
    register_check,
)
from gradebook.rubrics.check_kit.columns import quote_words, text_column
from gradebook.rubrics.checks.style.phrases import (
    PhraseBook,
    Phrases,
    PhraseSettings,
    find_phrases,
    phrase_key,
    read_phrases,
)

LEAST_LETTERS = 4  # shorter words match by chance: "a$$" is also a price
ANY_LETTER = "*#"
LETTER_OF = MappingProxyType({"@": "a", "4": "a", "3": "e", "1": "i", "!": "i", "|": "i", "0": "o", "$": "s"})
AS_LETTERS = str.maketrans(dict(LETTER_OF))

SIGNED = re.compile(r"[a-z@$][a-z@$43102!|*#]*[a-z@$]")
SPACED = re.compile(r"(?<![a-z])[a-z](?:[ ._-][a-z]){3,}(?![a-z])")
DRAWN_OUT = re.compile(r"([a-z])\1\1+")
HINT = r"(?i)[a-z@$][@4310!|*#$]+[a-z@$*#]|[@$][a-z]|(?:[^a-z]|\A)[a-z](?:[ ._-][a-z]){3}|" + "|".join(
    f"{letter}{{3}}" for letter in "abcdefghijklmnopqrstuvwxyz"
)


def find_disguised(texts: pa.Array, words: frozenset[str]) -> list[tuple[str, ...]]:
    """Words (lower case) that occur in disguise in each text: [text]."""
    found_by_text: list[tuple[str, ...]] = [()] * len(texts)
    is_likely = pc.match_substring_regex(texts, HINT)
    likely_rows = pc.indices_nonzero(is_likely).to_pylist()
    for row, text in zip(likely_rows, texts.filter(is_likely).to_pylist(), strict=True):
        found_by_text[row] = tuple(dict.fromkeys(_find(text.lower(), _words_by_shape(words))))
    return found_by_text


@lru_cache(maxsize=64)
def _words_by_shape(words: frozenset[str]) -> dict[tuple[int, str], list[str]]:
    """(length, first letter) -> sorted words that are long enough to be recognised in disguise."""
    words_by_shape: dict[tuple[int, str], list[str]] = {}
    for word in sorted(words):
        if len(word) >= LEAST_LETTERS and word.isascii() and word.isalpha():
            words_by_shape.setdefault((len(word), word[0]), []).append(word)
    return words_by_shape


def _find(text: str, words_by_shape: dict[tuple[int, str], list[str]]) -> Iterator[str]:
    yield from _find_signed({token for token in SIGNED.findall(text) if not token.isalpha()}, words_by_shape)
    words = [word for group in words_by_shape.values() for word in group]
    spaced = "\n".join({re.sub("[ ._-]", "", run.group()) for run in SPACED.finditer(text)})
    yield from (word for word in words if word in spaced)
    drawn_out_words = {token for token in re.findall("[a-z]+", text) if DRAWN_OUT.search(token)}
    short = {DRAWN_OUT.sub(replacement, token) for token in drawn_out_words for replacement in (r"\1", r"\1\1")}
    yield from (word for word in words if word in short)


def _find_signed(tokens: Iterable[str], words_by_shape: dict[tuple[int, str], list[str]]) -> Iterator[str]:
    for token in sorted(tokens):
        decoded = token.translate(AS_LETTERS)
        yield from (word for word in words_by_shape.get((len(decoded), decoded[0]), ()) if _fits(decoded, word))


def _fits(decoded: str, word: str) -> bool:
    return all(letter in (wanted, *ANY_LETTER) for letter, wanted in zip(decoded, word, strict=True))


ProfanityKind = Literal["profanity", "slurs", "mild_profanity"]
ToneList = Literal["hype", "judgmental", "condescending", "filler", "apologetic", "cliches"]


class ProfanitySettings(PhraseSettings):
    """Words that count as profanity."""

    kinds: Annotated[tuple[ProfanityKind, ...], Field(min_length=1)] = ("profanity", "slurs")
    """lists to search: `profanity` (strong), `slurs`, `mild_profanity`"""
    disguised: bool = False
    """also find words written with signs, digits or spaces: "sh1t", "f**k", "f u c k", "fuuuck\""""


class ToneSettings(CheckSettings):
    """Unwanted words: shipped lists, and your own."""

    lists: tuple[ToneList, ...] = ()
    """shipped lists: `hype`, `judgmental`, `condescending`, `filler`, `apologetic`, `cliches`"""
    words: Phrases = ()
    """further unwanted words and phrases"""
    except_: Annotated[Phrases, Field(alias="except")] = ()
    """phrases that never count, together with listed ones that begin inside them"""

    @model_validator(mode="after")
    def _something_is_banned(self) -> Self:
        if not self.lists and not self.words:
            raise ValueError("found neither lists nor words, expected at least one of them")
        return self


@register_check(
    "no_profanity",
    ProfanitySettings,
    cost="rows",
    examples=(
        Example("The class in Scunthorpe assesses hell's bells.", True),
        Example("That is bullshit.", False),
        Example("That is sh*t!", False, {"disguised": True}),
        Example("Oh damn.", False, {"kinds": ["mild_profanity"]}),
        Example("What a load of codswallop!", False, {"more": ["codswallop"]}),
    ),
)
def no_profanity(shard: pa.Table, settings: ProfanitySettings) -> CheckVerdicts:
    """The output contains no profanity. The evidence names it, masked: "found 's***'".

    The check looks for the whole words of the English lists under `kinds` (`lists/profanity.txt` and others) and of
    `more`; a phrase of `except` never counts. Words that are often harmless, such as a given name, are not in the
    lists, and words inside others ("class", "Scunthorpe") do not count. Quoted profanity counts.

    With `disguised`, words of four letters or more are also found with signs or digits for letters ("sh1t", "f**k"),
    with a space, a dot, a hyphen or an underscore between all of their letters, and with a drawn-out letter.
    """
    texts = text_column(shard, "output")
    book, words = _profanity(settings.kinds, settings.more, settings.except_)
    phrases_by_text = find_phrases(texts, book)
    if settings.disguised:
        disguised = find_disguised(texts, words)
        phrases_by_text = [
            tuple(dict.fromkeys(pair[0] + pair[1])) for pair in zip(phrases_by_text, disguised, strict=True)
        ]
    return gather_rows(_tone_finding([_masked(phrase) for phrase in phrases]) for phrases in phrases_by_text)


@register_check(
    "no_banned_tone",
    ToneSettings,
    cost="rows",
    examples=(
        Example("The update fixes two faults.", True, {"lists": ["hype", "filler"]}),
        Example("Our game-changing update is second to none!", False, {"lists": ["hype"]}),
        Example("As I already told you, it is late.", False, {"lists": ["condescending", "judgmental"]}),
        Example("Kindly do the needful.", False, {"words": ["do the needful"]}),
    ),
)
def no_banned_tone(shard: pa.Table, settings: ToneSettings) -> CheckVerdicts:
    """The output contains no word or phrase of the lists, nor of `words`. The evidence names each, and its list.

    The lists are English and ship with the check (`lists/hype.txt` and others). Phrases match whole words, with letters
    in either case, apostrophes in any shape and hyphens or spaces between the words; a phrase of `words` in a script
    without spaces matches anywhere. A phrase of `except` never counts. The check reads words, not intent: "an amazing
    amount of rain" counts as hype.
    """
    book, list_of = _tone(settings.lists, settings.words, settings.except_)
    phrases_by_text = find_phrases(text_column(shard, "output"), book)
    return gather_rows(
        _tone_finding([_listed(phrase, list_of.get(phrase)) for phrase in phrases]) for phrases in phrases_by_text
    )


@lru_cache(maxsize=64)
def _profanity(
    kinds: tuple[str, ...], more: tuple[str, ...], excepted: tuple[str, ...]
) -> tuple[PhraseBook, frozenset[str]]:
    """Phrase book, and the single words to look for in disguise."""
    phrases = [*(phrase for kind in kinds for phrase in read_phrases(kind)), *more]
    excluded = {phrase.lower() for phrase in excepted}
    return PhraseBook(phrases, excepted), frozenset(phrase.lower() for phrase in phrases) - excluded


@lru_cache(maxsize=64)
def _tone(
    lists: tuple[str, ...], words: tuple[str, ...], excepted: tuple[str, ...]
) -> tuple[PhraseBook, dict[str, str]]:
    """Phrase book, and for each phrase the first list that has it."""
    list_of = {phrase_key(phrase): name for name in reversed(lists) for phrase in read_phrases(name)}
    return PhraseBook((*(phrase for name in lists for phrase in read_phrases(name)), *words), excepted), list_of


def _masked(phrase: str) -> str:
    return repr(" ".join(word[0] + "*" * (len(word) - 1) for word in phrase.split()))


def _listed(phrase: str, name: str | None) -> str:
    return repr(phrase) if name is None else f"{phrase!r} ({name})"


def _tone_finding(names: Iterable[str]) -> RowFinding:
    names_text = ", ".join(dict.fromkeys(names))  # two words may look alike once they are masked
    return RowFinding(not names_text, f"found {names_text}" if names_text else None)


class SelfReferenceSettings(PhraseSettings):
    """Changes to the list of self-references; `is_negated` requires one."""

    is_negated: bool = False
    """require a self-reference"""


class RefusalSettings(PhraseSettings):
    """Changes to the list of refusals, and the part of the output to search; `is_negated` requires a refusal."""

    within: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 300
    """number of characters at the start of the output that are searched"""
    is_negated: bool = False
    """require a refusal"""


@register_check(
    "no_refusal",
    RefusalSettings,
    cost="rows",
    examples=(
        Example("Here are three names for the café: ...", True),
        Example("I’m sorry, but I can’t help with that.", False),
        Example("I can't help but smile at your story.", True),
        Example("I'm unable to share personal data.", True, {"is_negated": True}),
        Example("That is out of my hands.", False, {"more": ["out of my hands"]}),
    ),
)
def no_refusal(shard: pa.Table, settings: RefusalSettings) -> CheckVerdicts:
    """The output does not begin with a refusal, or with `is_negated` it does. The evidence quotes it.

    A refusal is a phrase of the shipped list (`lists/refusals.txt`, English) or of `more`, such as "I can't help with",
    "I am unable to" or "As an AI language model, I cannot", completely within the first `within` characters, after any
    whitespace. Letters match in either case, apostrophes in any shape, and words whole. A phrase of `except` never
    counts, nor does a listed one that begins inside it. An empty output has no refusal.

    The check reads words, not intent: a refusal in other words or another language is missed, and a character who says
    "I'm unable to" in the first lines of a story is found. If that matters, use a judge.
    """
    heads = pc.utf8_slice_codeunits(pc.utf8_ltrim_whitespace(text_column(shard, "output")), 0, settings.within)
    phrases_by_text = find_phrases(heads, _refusal_book("refusals", settings.more, settings.except_), is_quoted=True)
    return _judge_refusals(
        phrases_by_text, settings.is_negated, f"no refusal in the first {settings.within} characters"
    )


@register_check(
    "not_as_an_ai",
    SelfReferenceSettings,
    cost="rows",
    examples=(
        Example("As an AI engineer, she trains models.", True),
        Example("As an AI language model, I have no favourite.", False),
        Example("I'm an AI, so I can't taste it.", True, {"is_negated": True}),
        Example("I am Robo, your robot friend.", False, {"more": ["your robot friend"]}),
    ),
)
def not_as_an_ai(shard: pa.Table, settings: SelfReferenceSettings) -> CheckVerdicts:
    """The output never refers to itself as an AI, or with `is_negated` it does. The evidence quotes it.

    The phrases are those of the shipped list (`lists/as_an_ai.txt`, English) and of `more`, such as "as an AI language
    model", "I'm just an AI," or "my knowledge cutoff". Letters match in either case, apostrophes in any shape, and
    words whole. A phrase of `except` never counts, nor does a listed one that begins inside it. Quoted words of
    somebody else count as the output's own.
    """
    book = _refusal_book("as_an_ai", settings.more, settings.except_)
    phrases_by_text = find_phrases(text_column(shard, "output"), book, is_quoted=True)
    return _judge_refusals(phrases_by_text, settings.is_negated, "no self-reference as an AI")


@lru_cache(maxsize=64)
def _refusal_book(name: str, more: tuple[str, ...], excepted: tuple[str, ...]) -> PhraseBook:
    return PhraseBook((*read_phrases(name), *more), excepted)


def _judge_refusals(phrases_by_text: Iterable[tuple[str, ...]], is_negated: bool, missing: str) -> CheckVerdicts:
    return gather_rows(_refusal_finding(phrases, is_negated, missing) for phrases in phrases_by_text)


def _refusal_finding(phrases: tuple[str, ...], is_negated: bool, missing: str) -> RowFinding:
    if phrases:
        return RowFinding(is_negated, f"found {quote_words(phrases)}")
    return RowFinding(not is_negated, missing if is_negated else None)
