"""Check of length in tokens of a model's tokenizer."""

import hashlib
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, PrivateAttr, ValidationInfo, model_validator

from gradebook.rubrics.check_kit.bounds import BoundsSettings, judge_counts
from gradebook.rubrics.check_kit.check import CheckVerdicts, FileName, is_panic, register_check
from gradebook.rubrics.check_kit.columns import text_column, to_mask
from gradebook.rubrics.check_kit.evidence import evidence_where, join_texts
from gradebook.rubrics.text.named_files import UnreadableFile, read_below

MOST_BYTES = 400_000  # of an output; hard input takes a tokenizer one to two seconds a megabyte
BATCH_OUTPUTS = 256
MOST_FILE_BYTES = 100_000_000  # of a tokenizer.json; the largest of 2026 have 35 MB


class TokenSettings(BoundsSettings):
    """Bounds on the number of tokens, and the tokenizer to count with."""

    tokenizer: FileName
    """path of a `tokenizer.json` in the format of Hugging Face tokenizers, in the rubric's folder or below it; for
    `gradebook checks try` below the current folder"""
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
    found = judge_counts(pa.array(counts), settings, "token", "tokens")
    is_long = pc.invert(is_counted)
    shown = sizes.filter(is_long).cast(pa.string())
    reasons = join_texts("too long to count: found ", shown, f" bytes, at most {MOST_BYTES}")
    nothing, no_text = pa.scalar(None, pa.bool_()), pa.scalar(None, pa.string())
    return CheckVerdicts(
        pc.if_else(is_counted, found.is_passed, nothing),
        pc.if_else(is_counted, found.evidence, no_text),
        evidence_where(is_long, reasons),
        None if found.level_ids is None else pc.if_else(is_counted, found.level_ids, no_text),
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


@lru_cache(maxsize=4)  # each shard asks again
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
