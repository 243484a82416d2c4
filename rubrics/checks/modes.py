"""Running a check, strict or loose.

Loose is IFEval's (Zhou et al. 2023, arXiv 2311.07911, section 2.2): an output passes if it does as it stands or in one
of seven variants: without its first line, without its last line, without both, and each of the four without asterisks.
What is left of a variant is stripped of surrounding whitespace, and a blank variant passes nothing.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.check_kit.check import Check, CheckSettings, CheckVerdicts
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.check_kit.evidence import evidence_where
from gradebook.rubrics.check_kit.regexes import WHITESPACE
from gradebook.rubrics.model.methods import Mode

FIRST_LINE = r"\A[^\n]*(?:\n|\z)"
LAST_LINE = r"(?:\n[^\n]*|\A[^\n]*)\z"
NOT_BLANK = rf"[^{WHITESPACE}]"


def run_check(check: Check, shard: pa.Table, settings: CheckSettings, mode: Mode = "strict") -> CheckVerdicts:
    """Run a check over a shard; loose, the evidence says which variant made an output pass.

    A check that does not read the output's text, as those of sound, is the same in both modes.
    """
    found = check.function(shard, settings)
    return _loosen(found, check, shard, settings) if mode == "loose" and "output" in check.columns else found


def _loosen(found: CheckVerdicts, check: Check, shard: pa.Table, settings: CheckSettings) -> CheckVerdicts:
    is_unmet = pc.fill_null(pc.invert(found.is_passed), True)  # it fails, or the check can't tell, as it stands
    mended_by, mended_levels = _mend(check, shard.filter(is_unmet), settings)
    is_mended = pc.replace_with_mask(pa.repeat(False, shard.num_rows), is_unmet, mended_by.is_valid())
    reasons, level_ids, nothing = found.reasons, found.level_ids, pa.scalar(None, pa.string())
    if level_ids is not None:
        level_ids = pc.if_else(is_mended, pc.replace_with_mask(level_ids, is_unmet, mended_levels), level_ids)
    return CheckVerdicts(
        pc.if_else(is_mended, True, found.is_passed),
        pc.coalesce(evidence_where(is_unmet, mended_by), found.evidence),
        None if reasons is None else pc.if_else(is_mended, nothing, reasons),
        level_ids,
    )


def _mend(check: Check, unmet: pa.Table, settings: CheckSettings) -> tuple[pa.StringArray, pa.StringArray]:
    """For each output the first variant that passes, in words, and its level; null where none does: (output,) each."""
    mended_by = level_ids = nothing = pa.nulls(unmet.num_rows, pa.string())
    place = unmet.schema.get_field_index("output")
    for words, variants in _variants(text_column(unmet, "output")):
        is_tried = pc.and_(mended_by.is_null(), pc.match_substring_regex(variants, NOT_BLANK))
        tried = unmet.set_column(place, "output", variants).filter(is_tried)
        if not tried.num_rows:
            continue
        found = check.function(tried, settings)
        is_mended = pc.replace_with_mask(pa.repeat(False, len(nothing)), is_tried, pc.fill_null(found.is_passed, False))
        mended_by = pc.if_else(is_mended, f"loose: passes {words}", mended_by)
        if found.level_ids is not None:
            level_ids = pc.if_else(is_mended, pc.replace_with_mask(nothing, is_tried, found.level_ids), level_ids)
    return mended_by, level_ids


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
