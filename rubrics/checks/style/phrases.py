"""Word-by-word phrase search: shipped phrase lists, and a search in linear time over columns of words."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from itertools import islice, product
from typing import Annotated, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from gradebook.rubrics.check_kit.check import CheckSettings
from gradebook.rubrics.check_kit.normalising import split_whitespace

Numbers = NDArray[np.int64]

# Thai to Lao, Burmese, Khmer, kana, Han and its extensions: scripts without spaces between words.
UNSPACED = (
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
BLOCK_BYTES = 1 << 21


class WordColumn(NamedTuple):
    """Words of a column of texts, one text after another.

    ids: (word,), index into the vocabulary. rows: (word,), text of each word, ascending. vocabulary: (distinct word,).
    """

    ids: Numbers
    rows: Numbers
    vocabulary: pa.Array


def split_words(texts: pa.Array) -> WordColumn:
    """Split texts at whitespace. texts: (text,), string or large_string, without nulls."""
    words = split_whitespace(texts)
    encoded = words.flatten().dictionary_encode()
    ids = encoded.indices.to_numpy().astype(np.int64)
    rows = np.repeat(np.arange(len(texts)), pc.list_value_length(words).to_numpy())
    # a blank text gives an empty word
    return without_empty(WordColumn(ids, rows, encoded.dictionary))


def without_empty(words: WordColumn) -> WordColumn:
    """Drop empty words."""
    is_word = (pc.binary_length(words.vocabulary).to_numpy() > 0)[words.ids]
    return WordColumn(words.ids[is_word], words.rows[is_word], words.vocabulary)


def text_blocks(texts: pa.Array) -> Iterator[pa.Array]:
    """Slice the column into blocks of about `BLOCK_BYTES`, at least one text each, to bound memory."""
    if texts.nbytes <= BLOCK_BYTES:
        yield texts
        return
    ends = np.cumsum(pc.binary_length(texts).to_numpy(), dtype=np.int64)
    first = 0
    while first < len(texts):
        before = ends[first - 1] if first else 0
        last = max(int(np.searchsorted(ends, before + BLOCK_BYTES, side="right")), first + 1)
        yield texts.slice(first, last - first)
        first = last


# Marks that belong to the letter before them and are not in \w: Latin, Hebrew, Arabic, and of India and Sri Lanka.
COMBINING = "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
COMBINING += "\u06d6-\u06ed\u0900-\u0963\u0966-\u0dff\u200c\u200d"
TOKEN = re.compile(rf"[\w{COMBINING}]+(?:'[\w{COMBINING}]+)*|[.,!?;:…。、！？，；：।؟]")  # noqa: RUF001
LAST_TOKEN = re.compile(rf"(?:{TOKEN.pattern})\Z")
# fmt: off
COMMON_WORDS = frozenset((  # too common to preselect texts by
    "about", "all", "an", "and", "are", "as", "at", "be", "but", "by", "can", "do", "for", "from", "have", "i",
    "in", "is", "it", "my", "not", "of", "on", "or", "so", "that", "the", "this", "to", "was", "we", "who", "with",
    "you",
))
# fmt: on
HAS_WORD = re.compile(r"\w")
HAS_UNSPACED = re.compile(UNSPACED)
MOST_PHRASE_WORDS = 20  # words of a phrase, which is compared at each place of a text
APOSTROPHES = "’‘ʼ＇`´"  # noqa: RUF001
OPEN_MARK = re.compile(r" ([.,!?;:])")
CHOICE = re.compile(r"\(([^()]*)\)")
LEAST_ROWS_TO_PREFILTER = 32  # for fewer rows, reading all of them is faster than compiling a pattern


def _has_words(phrase: str) -> str:
    if not HAS_WORD.search(phrase.replace("_", " ")):
        raise ValueError(f"found {phrase!r}, expected a phrase with a letter or a number")
    word_count = len(TOKEN.findall(_fold(phrase)))
    if word_count > MOST_PHRASE_WORDS:
        raise ValueError(f"found a phrase of {word_count} words and marks, expected at most {MOST_PHRASE_WORDS}")
    key = _fold(phrase).strip(" '")
    if not HAS_UNSPACED.search(key) and not (TOKEN.match(key) and LAST_TOKEN.search(key)):
        raise ValueError(f"found {phrase!r}, expected no sign at its ends except . , ! ? ; :")
    return phrase


Phrases = tuple[Annotated[str, AfterValidator(_has_words)], ...]


class PhraseSettings(CheckSettings):
    """Changes to a shipped list of phrases."""

    more: Phrases = ()
    """further phrases to look for"""
    except_: Annotated[Phrases, Field(alias="except")] = ()
    """phrases that never count, together with listed ones that begin inside them"""


@dataclass(slots=True)
class _Node:
    """Node of a trie: the words that may come next.

    phrase: phrase that ends here; is_excepted: whether it does not count.
    """

    following: dict[str, "_Node"] = field(default_factory=dict)
    phrase: str | None = None
    is_excepted: bool = False


class PhraseBook:
    """Searchable set of phrases, immutable once built.

    Letters match in either case and apostrophes in any shape. A phrase matches whole words, with anything between them
    except a mark such as . or , that it does not have itself. The end of a text counts as a full stop. A phrase in a
    script without spaces matches anywhere.
    """

    def __init__(self, phrases: Iterable[str], excepted: Iterable[str] = ()) -> None:
        self._root = _Node()
        self._anywhere: list[str] = []
        self._most_tokens = 0
        rare_words = [self._add(phrase, False) for phrase in phrases]
        for phrase in excepted:
            self._add(phrase, True)
        self.prefilter = _prefilter(rare_words)

    def find(self, text: str) -> tuple[str, ...]:
        """Distinct phrases in a text, in order; of overlapping phrases, the one that begins first."""
        return tuple(self._spans(_fold(text)))

    def quote(self, text: str) -> tuple[str, ...]:
        """Phrases that `find` finds, quoted as the text writes them."""
        folded = _fold(text)
        spans = self._spans(folded)
        # Some letter has a lower case of two characters, so positions differ from the text's.
        if len(folded) != len(text):
            return tuple(spans)
        last_index = max((index for span in spans.values() if span for index in span), default=0)
        edges = [match.span() for match in islice(TOKEN.finditer(folded), last_index)]
        quoted = []
        for phrase, span in spans.items():
            start = edges[span[0]][0] if span else folded.index(phrase)
            stop = edges[min(span[1], len(edges)) - 1][1] if span else start + len(phrase)
            quoted.append(text[start:stop].rstrip(" ,.!;"))
        return tuple(quoted)

    def _spans(self, folded: str) -> dict[str, tuple[int, int] | None]:
        """Phrases in a folded text, each with the index of its first word and of the one after it; None if it has no
        words.
        """
        spans: dict[str, tuple[int, int] | None] = dict.fromkeys(
            phrase for phrase in self._anywhere if phrase in folded
        )
        tokens = [*TOKEN.findall(folded), "."]
        starts = self._root.following
        if starts.keys().isdisjoint(tokens):
            return spans
        free_from = 0
        for index in [index for index, token in enumerate(tokens) if token in starts]:
            node, end = self._longest(tokens, index)
            if node.phrase is None or index < free_from:
                continue
            free_from = end
            if not node.is_excepted:
                spans.setdefault(node.phrase, (index, end))
        return spans

    def _longest(self, tokens: list[str], start: int) -> tuple[_Node, int]:
        """Longest phrase that begins at a token, and the index after it; a node without a phrase if there is none."""
        node = longest = self._root
        end = start
        for after, token in enumerate(tokens[start : start + self._most_tokens], start + 1):
            following = node.following.get(token)
            if following is None:
                break
            node = following
            if node.phrase is not None:
                longest, end = node, after
        return longest, end

    def _add(self, phrase: str, is_excepted: bool) -> str | None:
        """Add a phrase. Returns a word that every text with the phrase contains; None if there is none."""
        key = phrase_key(phrase)
        if HAS_UNSPACED.search(key):
            self._anywhere = [other for other in self._anywhere if other != key] + [key] * (not is_excepted)
            return None
        tokens = TOKEN.findall(_fold(phrase))
        self._most_tokens = max(self._most_tokens, len(tokens))
        node = self._root
        for token in tokens:
            node = node.following.setdefault(token, _Node())
        node.phrase, node.is_excepted = key, is_excepted
        plain = [token for token in tokens if token.isascii() and token.isalnum()]
        return max(plain, key=lambda token: (token not in COMMON_WORDS, len(token)), default=None)


def phrase_key(phrase: str) -> str:
    """Name of a phrase in the results of `PhraseBook.find`."""
    folded = _fold(phrase)
    if HAS_UNSPACED.search(folded):
        return folded
    return OPEN_MARK.sub(r"\1", " ".join(TOKEN.findall(folded))).rstrip(" ,.!;")


def _fold(text: str) -> str:
    folded = text.lower().replace("_", " ")
    if not folded.isascii() or "`" in folded:
        for mark in APOSTROPHES:
            folded = folded.replace(mark, "'")
    return folded


def _prefilter(words: list[str | None]) -> str | None:
    """Pattern that matches every text with a phrase, if each phrase has one of the words. None if a phrase has none."""
    distinct = sorted({word for word in words if word})
    if not distinct or None in words:
        return None
    patterns = [word if len(word) > 3 else rf"(?:\b|_){word}(?:\b|_)" for word in distinct]
    return f"(?i)(?:{'|'.join(patterns)})"


def find_phrases(texts: pa.Array, book: PhraseBook, *, is_quoted: bool = False) -> list[tuple[str, ...]]:
    """Phrases of the book in each text, by their names in the book or, if quoted, in the text's spelling: [text]."""
    find = book.quote if is_quoted else book.find
    if book.prefilter is None or len(texts) < LEAST_ROWS_TO_PREFILTER:
        return [find(text) for text in texts.to_pylist()]
    is_likely = pc.match_substring_regex(texts, book.prefilter)
    phrases_by_text: list[tuple[str, ...]] = [()] * len(texts)
    likely_rows = pc.indices_nonzero(is_likely).to_pylist()
    for row, text in zip(likely_rows, texts.filter(is_likely).to_pylist(), strict=True):
        phrases_by_text[row] = find(text)
    return phrases_by_text


@lru_cache(maxsize=32)
def read_phrases(name: str) -> tuple[str, ...]:
    """Phrases of a shipped list: one per line, `(a|b)` for alternatives, `#` before a comment."""
    text = files("gradebook.rubrics.checks").joinpath("lists", f"{name}.txt").read_text("utf-8")
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    return tuple(dict.fromkeys(phrase for line in lines if line for phrase in _expand(line)))


def _expand(line: str) -> list[str]:
    pieces = CHOICE.split(line)  # every second part is the inside of a pair of brackets
    choices = [piece.split("|") if index % 2 else [piece] for index, piece in enumerate(pieces)]
    return [" ".join("".join(chosen).split()) for chosen in product(*choices)]
