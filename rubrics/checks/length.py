"""Checks of length: words, characters, lines, bytes, tokens, sentences, paragraphs and bullets.

Sentences, paragraphs and bullets are counted by punctuation alone, so independent of the language.
"""

import hashlib
import re
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, PrivateAttr, ValidationInfo, model_validator

from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, FileName, is_panic, register_check
from gradebook.rubrics.check_kit.columns import evidence_where, join_texts, text_column, to_mask
from gradebook.rubrics.check_kit.measures import BoundsSettings, judge_counts
from gradebook.rubrics.check_kit.normalising import split_whitespace
from gradebook.rubrics.check_kit.regexes import WHITESPACE
from gradebook.rubrics.text.named_files import UnreadableFile, read_below


def count_words(texts: pa.Array) -> pa.Int64Array:
    """Count the maximal runs of non-whitespace, as `len(text.split())` does. texts: (output,). Returns (output,)."""
    trimmed = pc.utf8_trim_whitespace(texts)
    counts = pc.list_value_length(split_whitespace(trimmed)).cast(pa.int64())  # a blank text has one empty word
    return pc.if_else(pc.equal(pc.binary_length(trimmed), 0), 0, counts)


@register_check(
    "length_words",
    BoundsSettings,
    examples=(
        Example("A well-known fact.", True, {"min": 2, "max": 3}),
        Example("A well-known fact.", False, {"min": 4}),
    ),
)
def length_words(shard: pa.Table, settings: BoundsSettings) -> CheckVerdicts:
    """The number of words lies within the bounds.

    A word is a maximal run of non-whitespace, so "well-known" and "—" are one word each. A text without spaces is one
    word, also in Chinese, Japanese and Thai: use `length_characters` for those. Whitespace is as in Python's
    `str.split` (listed in `gradebook.rubrics.check_kit.regexes`).
    """
    return judge_counts(count_words(text_column(shard, "output")), settings, "word", "words")


@register_check(
    "length_characters",
    BoundsSettings,
    examples=(Example("naïve", True, {"max": 5}), Example("naïve!", False, {"max": 5})),
)
def length_characters(shard: pa.Table, settings: BoundsSettings) -> CheckVerdicts:
    """The number of characters lies within the bounds.

    A character is a Unicode code point. Whitespace counts; "é" is one or two code points, depending on how it was
    typed; a family emoji is several.
    """
    counts = pc.utf8_length(text_column(shard, "output")).cast(pa.int64())
    return judge_counts(counts, settings, "character", "characters")


@register_check(
    "length_lines",
    BoundsSettings,
    examples=(
        Example("one\ntwo\n", True, {"min": 2, "max": 2}),
        Example("one\n\nthree", False, {"max": 2}),
    ),
)
def length_lines(shard: pa.Table, settings: BoundsSettings) -> CheckVerdicts:
    """The number of lines lies within the bounds.

    A line ends with LF or CRLF, or with the end of the output: "a" is one line with or without a line end, and an empty
    output has none. Blank lines count. A lone CR, U+2028 and other breaks do not end a line.
    """
    texts = text_column(shard, "output")
    has_open_line = pc.and_(pc.greater(pc.binary_length(texts), 0), pc.invert(pc.ends_with(texts, "\n")))
    line_end_counts = pc.count_substring(texts, "\n").cast(pa.int64())
    return judge_counts(pc.add(line_end_counts, has_open_line.cast(pa.int64())), settings, "line", "lines")


@register_check(
    "length_bytes",
    BoundsSettings,
    examples=(Example("naïve", True, {"max": 6}), Example("naïve", False, {"max": 5})),
)
def length_bytes(shard: pa.Table, settings: BoundsSettings) -> CheckVerdicts:
    """The number of bytes in UTF-8 lies within the bounds.

    An ASCII character is one byte, "é" two, "中" three, most emoji four.
    """
    counts = pc.binary_length(text_column(shard, "output")).cast(pa.int64())
    return judge_counts(counts, settings, "byte", "bytes")


# Each pattern extends to the end of the counted unit, so that the next match is the next unit. Arrow searches the rest
# of the text as a new text, so an anchor alone would match again right after a match.
PARAGRAPH = rf"[^{WHITESPACE}].*(?:\n[^\n]*[^{WHITESPACE}].*)*"
SENTENCE_END = re.compile("[.!?\u2026\u3002\uff01\uff1f]")
BULLET = r"(?m)^[ \t]*(?:[-*+•]|[0-9]+[.)])[ \t][^\n]*"


def _count_matches(shard: pa.Table, pattern: str) -> pa.Int64Array:
    return pc.count_substring_regex(text_column(shard, "output"), pattern).cast(pa.int64())


@register_check(
    "count_sentences",
    BoundsSettings,
    examples=(
        Example("Wait?! It is late.", True, {"min": 2, "max": 2}),
        Example("Wait?! It is late.", False, {"max": 1}),
    ),
)
def count_sentences(shard: pa.Table, settings: BoundsSettings) -> CheckVerdicts:
    """The number of sentences lies within the bounds.

    A sentence is a run of text with a letter or a number in it, ended by one of . ! ? … 。, by the full-width ! or ?
    (U+FF01, U+FF1F) or by the end of the text. So "Wait?!" is one, and a line end does not end one; "3.14" and "e.g."
    are two, as no language is assumed.
    """
    texts = text_column(shard, "output").to_pylist()
    counts = pa.array([_count_sentences(text or "") for text in texts], pa.int64())
    return judge_counts(counts, settings, "sentence", "sentences")


def _count_sentences(text: str) -> int:
    return sum(any(map(str.isalnum, run)) for run in SENTENCE_END.split(text))


@register_check(
    "count_paragraphs",
    BoundsSettings,
    examples=(
        Example("One.\n\nTwo.", True, {"min": 2, "max": 2}),
        Example("One.\n\nTwo.", False, {"max": 1}),
    ),
)
def count_paragraphs(shard: pa.Table, settings: BoundsSettings) -> CheckVerdicts:
    """The number of paragraphs lies within the bounds.

    A paragraph is a block of non-blank lines, separated from the next by blank lines (empty or whitespace only). Lines
    end with LF or CRLF.
    """
    return judge_counts(_count_matches(shard, PARAGRAPH), settings, "paragraph", "paragraphs")


@register_check(
    "count_bullets",
    BoundsSettings,
    examples=(
        Example("- one\n2) two\n-5 degrees", True, {"min": 2, "max": 2}),
        Example("- one\n2) two\n-5 degrees", False, {"max": 1}),
    ),
)
def count_bullets(shard: pa.Table, settings: BoundsSettings) -> CheckVerdicts:
    """The number of bullets lies within the bounds.

    A bullet is a line that starts, after any spaces or tabs, with one of - * + • or with digits and . or ) and
    continues with a space or a tab. So "- one" and "2) two" are bullets, "-5 degrees", "**bold**" and "---" are not.
    """
    return judge_counts(_count_matches(shard, BULLET), settings, "bullet", "bullets")


MOST_BYTES = 400_000  # bytes of an output; a tokenizer may take two seconds for a megabyte
BATCH_OUTPUTS = 256
MOST_FILE_BYTES = 100_000_000  # size of a tokenizer.json; the largest of 2026 have 35 MB


class TokenSettings(BoundsSettings):
    """Bounds on the number of tokens, and the tokenizer to count with."""

    tokenizer: FileName
    """path of a `tokenizer.json` in the format of Hugging Face tokenizers, in the rubric's folder or below it; for
    `gradebook rubric checks try` below the current folder"""
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """SHA-256 of that file in hexadecimal; any other file is refused"""
    _tokenizer: Any = PrivateAttr()

    @model_validator(mode="after")
    def _tokenizer_is_there(self, validation: ValidationInfo) -> Self:
        if validation.context is None:
            expected = "expected none: only the file of a rubric may name files"
            raise ValueError(f"found the file {self.tokenizer}, {expected}")
        content_digest, self._tokenizer = _read_tokenizer(self.tokenizer, validation.context)
        if self.digest not in {None, content_digest}:
            raise ValueError(f"found {self.tokenizer} of SHA-256 {content_digest}, expected {self.digest}")
        return self

    def count(self, outputs: list[str]) -> list[int]:
        """Tokens of each output, without special tokens at the start and the end."""
        encodings = self._tokenizer.encode_batch_fast(outputs, add_special_tokens=False)
        return [len(encoding) for encoding in encodings]


@register_check("length_tokens", TokenSettings, cost="heavy")
def length_tokens(shard: pa.Table, settings: TokenSettings) -> CheckVerdicts:
    """The number of tokens lies within the bounds, by the `tokenizer.json` of a model.

    Needs the package tokenizers: `pip install '.[tokens]'` in gradebook's clone. Special tokens are not counted, and
    truncation or padding settings in the file are ignored. The content of the file is not part of the rubric's digest:
    `digest` pins it. An output of more than 400,000 bytes stays unscored: "too long to count".
    An empty output has no tokens.
    """
    texts = text_column(shard, "output")
    sizes = pc.binary_length(texts).cast(pa.int64())
    is_counted = pc.less_equal(sizes, MOST_BYTES)
    counts = np.zeros(len(texts), np.int64)
    counts[to_mask(is_counted)] = _count_tokens(texts.filter(is_counted), settings)
    verdicts = judge_counts(pa.array(counts), settings, "token", "tokens")
    is_long = pc.invert(is_counted)
    long_sizes = sizes.filter(is_long).cast(pa.string())
    reasons = join_texts("too long to count: found ", long_sizes, f" bytes, at most {MOST_BYTES}")
    nothing, no_text = pa.scalar(None, pa.bool_()), pa.scalar(None, pa.string())
    return CheckVerdicts(
        pc.if_else(is_counted, verdicts.is_passed, nothing),
        pc.if_else(is_counted, verdicts.evidence, no_text),
        evidence_where(is_long, reasons),
        None if verdicts.level_ids is None else pc.if_else(is_counted, verdicts.level_ids, no_text),
    )


def _count_tokens(texts: pa.Array, settings: TokenSettings) -> list[int]:
    batches = (texts.slice(first, BATCH_OUTPUTS) for first in range(0, len(texts), BATCH_OUTPUTS))
    return [count for batch in batches for count in settings.count(batch.to_pylist())]


def _read_tokenizer(name: str, folder: Path) -> tuple[str, Any]:
    """Digest of the file and its tokenizer. Raises `ValueError` if the package, the file or its content is unusable."""
    if find_spec("tokenizers") is None:
        raise ValueError("found no package tokenizers, expected it: pip install '.[tokens]' in gradebook's clone")
    try:
        content = read_below(name, folder, MOST_FILE_BYTES)
    except UnreadableFile as error:
        raise ValueError(f"{error}: a tokenizer.json") from None
    try:
        return hashlib.sha256(content).hexdigest(), _parse_tokenizer(content)
    except _NoTokenizer:  # the file's content is not repeated: it may be any file of the folder
        raise ValueError(f"found {name}, which the package tokenizers can't read, expected a tokenizer.json") from None


class _NoTokenizer(Exception):
    pass


@lru_cache(maxsize=4)  # called for each shard
def _parse_tokenizer(content: bytes) -> Any:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_buffer(content)
    except BaseException as error:  # the package raises no narrower type, and panics
        if isinstance(error, Exception) or is_panic(error):
            raise _NoTokenizer from None
        raise
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
