"""Evidence: one short text for each row that needs one, null for the others."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

MOST_EVIDENCE_CHARACTERS = 200
EXCERPT_CHARACTERS = 60


def quote_words(words: Sequence[str]) -> str:
    """Join words for a message, each in quotes."""
    return ", ".join(repr(word) for word in words)


def evidence_where(mask: pa.BooleanArray, texts: pa.Array | str) -> pa.StringArray:
    """Put texts where the mask is true, null elsewhere.

    mask: (output,), null counts as false. texts: one for each true row in order, or one for all of them. Returns
    (output,), each cut to `MOST_EVIDENCE_CHARACTERS`.
    """
    values = pa.scalar(cut_text(texts)) if isinstance(texts, str) else cut_texts(texts, MOST_EVIDENCE_CHARACTERS)
    return pc.replace_with_mask(pa.nulls(len(mask), pa.string()), pc.fill_null(mask, False), values)


def cut_text(text: str, limit: int = MOST_EVIDENCE_CHARACTERS) -> str:
    """Cut a text to `limit` characters, the last one an ellipsis. Characters that UTF-8 cannot encode become `?`."""
    is_long = len(text) > limit
    shown = text[: limit - 1] + "…" if is_long else text
    return shown.encode("utf-8", "replace").decode("utf-8")


def cut_texts(texts: pa.Array, limit: int) -> pa.StringArray:
    """Cut each text of an array as `cut_text` does: (output,)."""
    sizes = pc.binary_length(texts)
    if (pc.max(sizes).as_py() or 0) <= limit:
        return texts.cast(pa.string())
    shown = pc.utf8_slice_codeunits(texts, 0, limit)
    marked = pc.binary_join_element_wise(pc.utf8_slice_codeunits(shown, 0, limit - 1).cast(pa.string()), "…", "")
    is_long = pc.greater(sizes, pc.binary_length(shown))
    return pc.if_else(is_long, marked, shown.cast(pa.string()))


def join_texts(*parts: pa.Array | str) -> pa.StringArray:
    """Concatenate arrays and constants row by row. At least one array: (output,)."""
    return pc.binary_join_element_wise(*parts, "")
