"""Strict and loose runs of a check.

Loose mode is IFEval's (Zhou et al. 2023, arXiv 2311.07911, section 2.2): an output passes if it passes unchanged or in
one of seven variants: without its first line, without its last line, without both, and each of the four without
asterisks. Each variant is stripped of surrounding whitespace, and a blank variant passes nothing.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.check_kit.check import Check, CheckSettings, CheckVerdicts, is_panic
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.check_kit.evidence import evidence_where
from gradebook.rubrics.check_kit.regexes import WHITESPACE
from gradebook.rubrics.model.methods import Mode

FIRST_LINE = r"\A[^\n]*(?:\n|\z)"
LAST_LINE = r"(?:\n[^\n]*|\A[^\n]*)\z"
PANIC = "the check broke off: its library can't process this output"
NOT_BLANK = rf"[^{WHITESPACE}]"


def run_check(check: Check, shard: pa.Table, settings: CheckSettings, mode: Mode = "strict") -> CheckVerdicts:
    """Run a check over a shard. In loose mode the evidence names the variant that made an output pass.

    A check that does not read the output's text, such as an audio check, is the same in both modes.
    """
    found = _run(check, shard, settings)
    return _loosen(found, check, shard, settings) if mode == "loose" and "output" in check.columns else found


def _run(check: Check, shard: pa.Table, settings: CheckSettings) -> CheckVerdicts:
    """Run a check; outputs over which its library panics stay unscored, and no others."""
    try:
        return check.function(shard, settings)
    except BaseException as error:
        if not is_panic(error):
            raise
        middle = shard.num_rows // 2
        if not middle:
            return _undecided(shard.num_rows)
    return _joined(*(_run(check, half, settings) for half in (shard.slice(0, middle), shard.slice(middle))))


def _undecided(count: int) -> CheckVerdicts:
    nothing = pa.nulls(count, pa.string())
    return CheckVerdicts(pa.nulls(count, pa.bool_()), nothing, pa.repeat(PANIC, count))


def _joined(first: CheckVerdicts, second: CheckVerdicts) -> CheckVerdicts:
    def texts(name: str) -> pa.Array | None:
        halves = [(getattr(found, name), len(found.is_passed)) for found in (first, second)]
        if all(half is None for half, _ in halves):
            return None
        filled = [pa.nulls(count, pa.string()) if half is None else _flat(half) for half, count in halves]
        return pa.concat_arrays(filled)

    is_passed = pa.concat_arrays([_flat(found.is_passed) for found in (first, second)])
    return CheckVerdicts(is_passed, texts("evidence"), texts("reasons"), texts("level_ids"))


def _flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _loosen(found: CheckVerdicts, check: Check, shard: pa.Table, settings: CheckSettings) -> CheckVerdicts:
    is_unmet = pc.fill_null(pc.invert(found.is_passed), True)  # fails, or cannot be decided, in its original form
    passed_by, passing_levels = _try_variants(check, shard.filter(is_unmet), settings)
    has_passed = pc.replace_with_mask(pa.repeat(False, shard.num_rows), is_unmet, passed_by.is_valid())
    reasons, level_ids, nothing = found.reasons, found.level_ids, pa.scalar(None, pa.string())
    if level_ids is not None:
        level_ids = pc.if_else(has_passed, pc.replace_with_mask(level_ids, is_unmet, passing_levels), level_ids)
    return CheckVerdicts(
        pc.if_else(has_passed, True, found.is_passed),
        pc.coalesce(evidence_where(is_unmet, passed_by), found.evidence),
        None if reasons is None else pc.if_else(has_passed, nothing, reasons),
        level_ids,
    )


def _try_variants(check: Check, unmet: pa.Table, settings: CheckSettings) -> tuple[pa.StringArray, pa.StringArray]:
    """First variant of each output that passes, in words, and its level; null if none passes: (output,) each."""
    passed_by = level_ids = nothing = pa.nulls(unmet.num_rows, pa.string())
    place = unmet.schema.get_field_index("output")
    for words, variants in _variants(text_column(unmet, "output")):
        is_tried = pc.and_(passed_by.is_null(), pc.match_substring_regex(variants, NOT_BLANK))
        tried = unmet.set_column(place, "output", variants).filter(is_tried)
        if not tried.num_rows:
            continue
        found = _run(check, tried, settings)
        has_passed = pc.replace_with_mask(
            pa.repeat(False, len(nothing)), is_tried, pc.fill_null(found.is_passed, False)
        )
        passed_by = pc.if_else(has_passed, f"loose: passes {words}", passed_by)
        if found.level_ids is not None:
            level_ids = pc.if_else(has_passed, pc.replace_with_mask(nothing, is_tried, found.level_ids), level_ids)
    return passed_by, level_ids


def _variants(texts: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Yield the seven variants, each with its name: (output,)."""
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
