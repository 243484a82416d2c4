"""Check of a regular expression."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.check_kit.evidence import EXCERPT_CHARACTERS, cut_texts, evidence_where, join_texts
from gradebook.rubrics.check_kit.regexes import Regex


class RegexSettings(CheckSettings):
    """Pattern in RE2's syntax; `is_negated` inverts the verdict."""

    pattern: Regex
    """a regular expression in RE2's syntax"""
    is_negated: bool = False
    """require that the pattern matches nowhere"""


@register_check(
    "matches_regex",
    RegexSettings,
    examples=(
        Example("Released in 2.1.0.", True, {"pattern": r"\d+\.\d+\.\d+"}),
        Example("Released in 2.1.", False, {"pattern": r"\d+\.\d+\.\d+"}),
        Example("Write to ada@example.org.", False, {"pattern": r"\S+@\S+", "is_negated": True}),
    ),
)
def matches_regex(shard: pa.Table, settings: RegexSettings) -> CheckVerdicts:
    """The pattern matches somewhere in the output, or with `is_negated` nowhere. The evidence is the first match.

    RE2's syntax and semantics: time is linear in the text, `.` does not match a line end without (?s), `^` and `$` are
    the start and the end of the text without (?m), `\\d`, `\\w`, `\\s` and `\\b` are ASCII. An empty match counts. A
    pattern whose counted repeats match more than 1,000 places, such as `(.{1,31}){1,31}` with 1,922, is refused.
    """
    texts = text_column(shard, "output")
    is_match = pc.match_substring_regex(texts, settings.pattern)
    shown = cut_texts(first_matches(texts.filter(is_match), settings.pattern), EXCERPT_CHARACTERS)
    evidence = evidence_where(is_match, join_texts("found '", shown, "'"))
    if settings.is_negated:
        return CheckVerdicts(pc.invert(is_match), evidence)
    return CheckVerdicts(is_match, pc.fill_null(evidence, "found no match"))


def first_matches(texts: pa.Array, pattern: str) -> pa.Array:
    """Leftmost match in each text. texts: (text,), each with a match. Returns (text,) of the same type."""
    if not len(texts):
        return texts
    parts = pc.split_pattern_regex(texts, pattern, max_splits=1)
    before, after = (pc.binary_length(pc.list_element(parts, place)).to_numpy() for place in (0, 1))
    return _slice_bytes(texts, before, pc.binary_length(texts).to_numpy() - after)


def _slice_bytes(texts: pa.Array, starts: np.ndarray, stops: np.ndarray) -> pa.Array:
    """Slice each text in bytes, without copying the content. All: (text,)."""
    _, edges, content = texts.buffers()
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    firsts = np.frombuffer(edges, width)[texts.offset : texts.offset + len(texts)]
    # Slices and the gaps between them alternate as rows of one array; every second row is a slice.
    turns = np.column_stack((firsts + starts, firsts + stops)).ravel().astype(width)
    both = pa.Array.from_buffers(texts.type, len(turns) - 1, [None, pa.py_buffer(turns), content])
    return both.take(pa.array(np.arange(0, len(both), 2)))
