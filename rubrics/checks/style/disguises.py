"""Disguised words: signs or digits for letters, spaced letters, drawn-out letters."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

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
    found: list[tuple[str, ...]] = [()] * len(texts)
    is_likely = pc.match_substring_regex(texts, HINT)
    places = pc.indices_nonzero(is_likely).to_pylist()
    for place, text in zip(places, texts.filter(is_likely).to_pylist(), strict=True):
        found[place] = tuple(dict.fromkeys(_find(text.lower(), _long_enough(words))))
    return found


@lru_cache(maxsize=64)
def _long_enough(words: frozenset[str]) -> dict[tuple[int, str], list[str]]:
    """Words long enough to be recognised in disguise, sorted, by length and first letter."""
    shelves: dict[tuple[int, str], list[str]] = {}
    for word in sorted(words):
        if len(word) >= LEAST_LETTERS and word.isascii() and word.isalpha():
            shelves.setdefault((len(word), word[0]), []).append(word)
    return shelves


def _find(text: str, shelves: dict[tuple[int, str], list[str]]) -> Iterator[str]:
    yield from _find_signed({token for token in SIGNED.findall(text) if not token.isalpha()}, shelves)
    words = [word for shelf in shelves.values() for word in shelf]
    spaced = "\n".join({re.sub("[ ._-]", "", run.group()) for run in SPACED.finditer(text)})
    yield from (word for word in words if word in spaced)
    drawn = {token for token in re.findall("[a-z]+", text) if DRAWN_OUT.search(token)}
    short = {DRAWN_OUT.sub(kept, token) for token in drawn for kept in (r"\1", r"\1\1")}
    yield from (word for word in words if word in short)


def _find_signed(tokens: Iterable[str], shelves: dict[tuple[int, str], list[str]]) -> Iterator[str]:
    for token in sorted(tokens):
        read = token.translate(AS_LETTERS)
        yield from (word for word in shelves.get((len(read), read[0]), ()) if _fits(read, word))


def _fits(read: str, word: str) -> bool:
    return all(have in (want, *ANY_LETTER) for have, want in zip(read, word, strict=True))
