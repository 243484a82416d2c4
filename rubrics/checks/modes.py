"""Running a check, strict or loose.

Loose is IFEval's (Zhou et al. 2023, arXiv 2311.07911, section 2.2): an output passes if it does as it stands or in one
of seven variants: without its first line, without its last line, without both, and each of the four without asterisks.
What is left of a variant is stripped of surrounding whitespace, and a blank variant passes nothing.
"""

from collections.abc import Iterator
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from rubrics.checks.columns import text_column
from rubrics.checks.evidence import evidence_where
from rubrics.checks.regexes import WHITESPACE
from rubrics.checks.registry import Check, CheckSettings, CheckVerdicts

Mode = Literal["strict", "loose"]
FIRST_LINE = r"\A[^\n]*(?:\n|\z)"
LAST_LINE = r"(?:\n[^\n]*|\A[^\n]*)\z"
NOT_BLANK = rf"[^{WHITESPACE}]"


def run_check(check: Check, shard: pa.Table, settings: CheckSettings, mode: Mode = "strict") -> CheckVerdicts:
    """Run a check over a shard; loose, the evidence says which variant made an output pass."""
    found = check.function(shard, settings)
    return found if mode == "strict" else _loosen(found, check, shard, settings)


def _loosen(found: CheckVerdicts, check: Check, shard: pa.Table, settings: CheckSettings) -> CheckVerdicts:
    is_failed = pc.fill_null(pc.invert(found.is_passed), False)
    mended_by = _mend(check, shard.filter(is_failed), settings)
    evidence = pc.coalesce(evidence_where(is_failed, mended_by), found.evidence)
    is_passed = pc.replace_with_mask(found.is_passed, is_failed, mended_by.is_valid())
    return CheckVerdicts(is_passed, evidence, found.reasons)


def _mend(check: Check, failed: pa.Table, settings: CheckSettings) -> pa.StringArray:
    """For each output the first variant that passes, in words; null where none does: (output,)."""
    mended_by = pa.nulls(failed.num_rows, pa.string())
    place = failed.schema.get_field_index("output")
    for words, variants in _variants(text_column(failed, "output")):
        is_tried = pc.and_(mended_by.is_null(), pc.match_substring_regex(variants, NOT_BLANK))
        tried = failed.set_column(place, "output", variants).filter(is_tried)
        if not tried.num_rows:
            continue
        is_mended = pc.fill_null(check.function(tried, settings).is_passed, False)
        named = pc.if_else(is_mended, f"loose: passes {words}", pa.scalar(None, pa.string()))
        mended_by = pc.replace_with_mask(mended_by, is_tried, named)
    return mended_by


def _variants(texts: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """The seven variants, each in words and as (output,)."""
    body = pc.replace_substring_regex(texts, FIRST_LINE, "", max_replacements=1)
    named = {
        "without its first line": pc.utf8_trim_whitespace(body),
        "without its last line": _without_last_line(texts),
        "without its first and last line": _without_last_line(body),
    }
    yield "without asterisks", pc.replace_substring(texts, "*", "")
    yield from named.items()
    for words, variant in named.items():
        yield f"{words} and without asterisks", pc.replace_substring(variant, "*", "")


def _without_last_line(texts: pa.Array) -> pa.Array:
    return pc.utf8_trim_whitespace(pc.replace_substring_regex(texts, LAST_LINE, "", max_replacements=1))
