"""Regular expressions over a column: the rows with a match, every match, and verdicts for those rows."""

from collections.abc import Iterable
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.check_kit.check import CheckVerdicts
from gradebook.rubrics.check_kit.rows import RowFinding, gather_rows

MARK = "\x00"  # put around each match before splitting; NUL characters of the text are replaced first
CODE = r"(?s)```.*?(?:```|\z)|`[^`\n]*`"
FEW_ROWS = 4  # a kernel compiles its pattern on each call, which for a few rows takes longer than a Python loop
FEW_BYTES = 4_000


def are_few(texts: pa.Array) -> bool:
    """Whether a Python loop over the texts is faster than compiling a pattern in a kernel."""
    return len(texts) <= FEW_ROWS and texts.nbytes <= FEW_BYTES


def find_likely(texts: pa.Array, pattern: str) -> pa.BooleanArray:
    """Mark the texts that need a closer look: those with a match, or all if there are few: (text,). Null is false."""
    if are_few(texts):
        return texts.is_valid()
    return pc.fill_null(pc.match_substring_regex(texts, pattern), False)


def split_at_matches(texts: pa.Array, pattern: str) -> list[list[str]]:
    """Split each text at every match: text before, match, text between, next match, and so on.

    A match is represented by the pattern's first group, or by the whole match if there is none. The pattern is in RE2's
    syntax. texts: (text,); a null gives one empty piece. A NUL character is read as U+FFFD.
    """
    whole = r"\1" if has_group(pattern) else r"\0"
    plain = pc.replace_substring(pc.fill_null(texts, ""), MARK, "\ufffd")
    marked = pc.replace_substring_regex(plain, pattern, f"{MARK}{whole}{MARK}")
    return [text.split(MARK) for text in marked.to_pylist()]


def all_matches(texts: pa.Array, pattern: str) -> list[list[str]]:
    """Non-empty matches in each text, represented as in `split_at_matches`."""
    return [[match for match in pieces[1::2] if match] for pieces in split_at_matches(texts, pattern)]


@lru_cache(maxsize=256)
def has_group(pattern: str) -> bool:
    """Whether a valid RE2 pattern has a capturing group."""
    try:
        pc.replace_substring_regex(pa.array([""]), pattern, r"\1")
    except pa.ArrowInvalid:
        return False
    return True


def without_code(texts: pa.Array) -> pa.Array:
    """Replace each Markdown code block and code span with a space."""
    has_code = pc.any(pc.match_substring(texts, "`")).as_py()
    return pc.replace_substring_regex(texts, CODE, " ") if has_code else texts


def place_findings(is_judged: pa.BooleanArray, findings: Iterable[RowFinding], others: CheckVerdicts) -> CheckVerdicts:
    """Merge the findings of the judged rows, in order, into the verdicts of the other rows. is_judged: (output,)."""
    judged = gather_rows(findings)
    level_ids = others.level_ids
    if level_ids is not None:
        level_ids = pc.if_else(is_judged, pa.scalar(None, pa.string()), level_ids)
    others_reasons = pa.nulls(len(is_judged), pa.string()) if others.reasons is None else others.reasons
    return CheckVerdicts(
        pc.replace_with_mask(others.is_passed, is_judged, judged.is_passed),
        pc.replace_with_mask(others.evidence, is_judged, judged.evidence),
        pc.replace_with_mask(others_reasons, is_judged, judged.reasons),
        level_ids,
    )


def same_verdicts(row_count: int, finding: RowFinding) -> CheckVerdicts:
    """Repeat one finding for every row: (output,) each."""
    return CheckVerdicts(
        pa.repeat(pa.scalar(finding.is_passed, pa.bool_()), row_count),
        pa.repeat(pa.scalar(finding.evidence, pa.string()), row_count),
        pa.repeat(pa.scalar(finding.reason, pa.string()), row_count),
    )
