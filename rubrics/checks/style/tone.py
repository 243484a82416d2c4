"""Checks of tone: profanity and unwanted wording."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Literal, Self

import pyarrow as pa
from pydantic import Field, model_validator

from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.check_kit.rows import RowFinding, gather_rows
from gradebook.rubrics.checks.style.disguises import find_disguised
from gradebook.rubrics.checks.style.phrases import (
    PhraseBook,
    Phrases,
    PhraseSettings,
    find_phrases,
    phrase_key,
    read_phrases,
)

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
    found = find_phrases(texts, book)
    if settings.disguised:
        disguised = find_disguised(texts, words)
        found = [tuple(dict.fromkeys(pair[0] + pair[1])) for pair in zip(found, disguised, strict=True)]
    return gather_rows(_finding([_masked(phrase) for phrase in phrases]) for phrases in found)


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
    found = find_phrases(text_column(shard, "output"), book)
    return gather_rows(_finding([_listed(phrase, list_of.get(phrase)) for phrase in phrases]) for phrases in found)


@lru_cache(maxsize=64)
def _profanity(
    kinds: tuple[str, ...], more: tuple[str, ...], excepted: tuple[str, ...]
) -> tuple[PhraseBook, frozenset[str]]:
    """Phrase book, and the single words to look for in disguise."""
    phrases = [*(phrase for kind in kinds for phrase in read_phrases(kind)), *more]
    skipped = {phrase.lower() for phrase in excepted}
    return PhraseBook(phrases, excepted), frozenset(phrase.lower() for phrase in phrases) - skipped


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


def _finding(named: Iterable[str]) -> RowFinding:
    found = ", ".join(dict.fromkeys(named))  # two words may look alike once they are masked
    return RowFinding(not found, f"found {found}" if found else None)
