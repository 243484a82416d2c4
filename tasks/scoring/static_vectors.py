"""Static vectors of a folder as model2vec writes it: a tokenizer, a vector for each token, and their mean."""

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.check_kit.check import is_panic
from gradebook.rubrics.model.errors import JudgeSettingsError
from gradebook.tasks.judging.settings.embedder import MOST_MODEL_BYTES

MOST_HEADER_BYTES = 10_000_000
BATCH = 256  # texts
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4"}


class StaticVectors:
    """Vectors of texts by a static model: the mean of their tokens' vectors, of unit length."""

    def __init__(
        self,
        tokenizer: Any,
        tokens: NDArray[np.float32],
        weights: NDArray[np.float32] | None,
        rows: NDArray[np.int64] | None,
        unknown: int | None,
    ) -> None:
        """tokens: (row, dim). weights: (token,). rows: (token,), the row of each; None: its own."""
        self._tokenizer, self._tokens, self._weights, self._rows, self._unknown = (
            tokenizer,
            tokens,
            weights,
            rows,
            unknown,
        )

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(text, dim); a text without a known token is zero."""
        found = np.zeros((len(texts), self._tokens.shape[1]), np.float32)
        for first in range(0, len(texts), BATCH):
            batch = [text.encode("utf-8", "replace").decode() for text in texts[first : first + BATCH]]
            encoded = self._tokenizer.encode_batch_fast(batch, add_special_tokens=False)
            for place, encoding in enumerate(encoded, first):
                found[place] = self._mean(np.array(encoding.ids, np.int64))
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        np.divide(found, lengths, out=found, where=lengths > 0)
        return found

    def fault(self, text: str) -> str | None:
        """Always None: every text has a vector."""
        return None

    def _mean(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        ids = ids[ids != self._unknown] if self._unknown is not None else ids
        if not len(ids):
            return np.zeros(self._tokens.shape[1], np.float32)
        vectors = self._tokens[ids if self._rows is None else self._rows[ids]]
        if self._weights is not None:
            vectors = vectors * self._weights[ids][:, np.newaxis]
        mean: NDArray[np.float32] = vectors.mean(axis=0)
        return mean


def read_static_model(folder: Path) -> StaticVectors:
    """Model of a folder with `tokenizer.json` and `model.safetensors`; nothing is downloaded, no code of it runs.

    Raises `JudgeSettingsError` if the package tokenizers is missing, or a file is not what is expected.
    """
    if find_spec("tokenizers") is None:
        expected = "it: pip install '.[tokens]' in gradebook's clone"
        raise JudgeSettingsError("--embedder", "no package tokenizers", expected)
    tokenizer, unknown = _read_tokenizer(folder / "tokenizer.json")
    tensors = _read_tensors(folder / "model.safetensors")
    tokens, weights, rows = (tensors.get(name) for name in ("embeddings", "weights", "mapping"))
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    is_right = tokens is not None and tokens.ndim == 2 and bool(np.isfinite(tokens).all())
    is_right = is_right and all(each is None or (each.ndim == 1 and len(each) >= size) for each in (weights, rows))
    if tokens is not None and is_right:
        row_count = len(tokens)
        is_right = row_count >= size if rows is None else bool((rows >= 0).all() and (rows < row_count).all())
    if tokens is None or not is_right:
        found = "no tensor `embeddings` that fits the tokenizer"
        raise JudgeSettingsError(f"--embedder: {folder / 'model.safetensors'}", found, "a model of model2vec")
    return StaticVectors(
        tokenizer,
        tokens.astype(np.float32),
        None if weights is None else weights.astype(np.float32),
        None if rows is None else rows.astype(np.int64),
        unknown,
    )


def _read_tokenizer(path: Path) -> tuple[Any, int | None]:
    """Tokenizer and the id of its unknown token."""
    from tokenizers import Tokenizer

    content = path.read_bytes()
    try:
        tokenizer = Tokenizer.from_buffer(content)
        name = json.loads(content)["model"].get("unk_token")
    except BaseException as error:  # the package raises no narrower type, and panics
        if isinstance(error, Exception) or is_panic(error):
            raise JudgeSettingsError(f"--embedder: {path}", "something else", "a tokenizer.json") from None
        raise
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer, tokenizer.token_to_id(name) if isinstance(name, str) else None


def _read_tensors(path: Path) -> dict[str, Any]:
    """Tensors of a file in the format safetensors: the size of a JSON header, the header, the numbers."""
    content = path.read_bytes()
    try:
        size = int.from_bytes(content[:8], "little")
        if not 0 < size <= min(MOST_HEADER_BYTES, len(content) - 8) or len(content) > MOST_MODEL_BYTES:
            raise ValueError("found another size of the header")
        header, numbers = json.loads(content[8 : 8 + size]), memoryview(content)[8 + size :]
        return {
            name: np.frombuffer(numbers[slice(*each["data_offsets"])], _TYPES[each["dtype"]]).reshape(each["shape"])
            for name, each in header.items()
            if name != "__metadata__"
        }
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise JudgeSettingsError(f"--embedder: {path}", "something else", "a file in the format safetensors") from None
