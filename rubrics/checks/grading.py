"""Grading by checks: a check run over a shard, strict or loose, and the verdicts of its criterion.

Loose mode is IFEval's (Zhou et al. 2023, arXiv 2311.07911, section 2.2): an output passes if it passes unchanged or in
one of seven variants: without its first line, without its last line, without both, and each of the four without
asterisks. Each variant is stripped of surrounding whitespace, and a blank variant passes nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.check_kit.check import Check, CheckSettings, CheckVerdicts, is_panic
from gradebook.rubrics.check_kit.columns import evidence_where, text_column
from gradebook.rubrics.check_kit.regexes import WHITESPACE
from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.methods import Mode
from gradebook.rubrics.model.outputs import read_field
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.verdicts import VERDICT_SCHEMA, verdict_rows

FIRST_LINE = r"\A[^\n]*(?:\n|\z)"
LAST_LINE = r"(?:\n[^\n]*|\A[^\n]*)\z"
PANIC = "the check broke off: its library can't process this output"
NOT_BLANK = rf"[^{WHITESPACE}]"


def run_check(
    check: Check, shard: pa.Table, settings: CheckSettings, mode: Mode = "strict", field: str | None = None
) -> CheckVerdicts:
    """Run a check over a shard. In loose mode the evidence names the variant that made an output pass.

    A check that does not read the output's text, such as an audio check, is the same in both modes. field: part of
    outputs that are JSON, in place of the whole; those without it stay unscored.
    """
    if field is not None:
        return _run_on_field(check, shard, settings, mode, field)
    verdicts = _run(check, shard, settings)
    return _loosen(verdicts, check, shard, settings) if mode == "loose" and "output" in check.columns else verdicts


def _run(check: Check, shard: pa.Table, settings: CheckSettings) -> CheckVerdicts:
    """Run a check; only outputs on which its library panics stay unscored."""
    try:
        return check.function(shard, settings)
    except BaseException as error:
        if not is_panic(error):
            raise
        middle = shard.num_rows // 2
        if not middle:
            return _undecided(shard.num_rows)
    return _joined_verdicts(*(_run(check, half, settings) for half in (shard.slice(0, middle), shard.slice(middle))))


def _run_on_field(check: Check, shard: pa.Table, settings: CheckSettings, mode: Mode, field: str) -> CheckVerdicts:
    pairs = [read_field(output, field) for output in text_column(shard, "output").to_pylist()]
    texts, faults = (pa.array([pair[index] for pair in pairs], pa.string()) for index in (0, 1))
    nothing = pa.nulls(len(pairs), pa.string())
    is_there = texts.is_valid()
    if not pc.any(is_there).as_py():
        return CheckVerdicts(pa.nulls(len(pairs), pa.bool_()), nothing, faults)
    rows = shard.set_column(shard.schema.get_field_index("output"), "output", texts).filter(is_there)
    verdicts = run_check(check, rows, settings, mode)
    indices = pa.array(np.cumsum(is_there) - 1, mask=texts.is_null().to_numpy(zero_copy_only=False))
    evidence, reasons, level_ids = (
        None if column is None else _flat(column).take(indices)
        for column in (verdicts.evidence, verdicts.reasons, verdicts.level_ids)
    )
    reasons = faults if reasons is None else pc.coalesce(faults, reasons)
    return CheckVerdicts(_flat(verdicts.is_passed).take(indices), evidence, reasons, level_ids)


def _undecided(count: int) -> CheckVerdicts:
    nothing = pa.nulls(count, pa.string())
    return CheckVerdicts(pa.nulls(count, pa.bool_()), nothing, pa.repeat(PANIC, count))


def _joined_verdicts(first: CheckVerdicts, second: CheckVerdicts) -> CheckVerdicts:
    def texts(name: str) -> pa.Array | None:
        halves = [(getattr(verdicts, name), len(verdicts.is_passed)) for verdicts in (first, second)]
        if all(half is None for half, _ in halves):
            return None
        filled = [pa.nulls(count, pa.string()) if half is None else _flat(half) for half, count in halves]
        return pa.concat_arrays(filled)

    is_passed = pa.concat_arrays([_flat(verdicts.is_passed) for verdicts in (first, second)])
    return CheckVerdicts(is_passed, texts("evidence"), texts("reasons"), texts("level_ids"))


def _flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _loosen(strict: CheckVerdicts, check: Check, shard: pa.Table, settings: CheckSettings) -> CheckVerdicts:
    is_unmet = pc.fill_null(pc.invert(strict.is_passed), True)  # fails, or cannot be decided, in its original form
    passed_by, passing_levels = _try_variants(check, shard.filter(is_unmet), settings)
    has_passed = pc.replace_with_mask(pa.repeat(False, shard.num_rows), is_unmet, passed_by.is_valid())
    reasons, level_ids, nothing = strict.reasons, strict.level_ids, pa.scalar(None, pa.string())
    if level_ids is not None:
        level_ids = pc.if_else(has_passed, pc.replace_with_mask(level_ids, is_unmet, passing_levels), level_ids)
    return CheckVerdicts(
        pc.if_else(has_passed, True, strict.is_passed),
        pc.coalesce(evidence_where(is_unmet, passed_by), strict.evidence),
        None if reasons is None else pc.if_else(has_passed, nothing, reasons),
        level_ids,
    )


def _try_variants(check: Check, unmet: pa.Table, settings: CheckSettings) -> tuple[pa.StringArray, pa.StringArray]:
    """Name of the first variant of each output that passes, and its level; null if none passes: (output,) each."""
    passed_by = level_ids = nothing = pa.nulls(unmet.num_rows, pa.string())
    column_index = unmet.schema.get_field_index("output")
    for variant_name, variants in _variants(text_column(unmet, "output")):
        is_tried = pc.and_(passed_by.is_null(), pc.match_substring_regex(variants, NOT_BLANK))
        tried = unmet.set_column(column_index, "output", variants).filter(is_tried)
        if not tried.num_rows:
            continue
        verdicts = _run(check, tried, settings)
        has_passed = pc.replace_with_mask(
            pa.repeat(False, len(nothing)), is_tried, pc.fill_null(verdicts.is_passed, False)
        )
        passed_by = pc.if_else(has_passed, f"loose: passes {variant_name}", passed_by)
        if verdicts.level_ids is not None:
            level_ids = pc.if_else(has_passed, pc.replace_with_mask(nothing, is_tried, verdicts.level_ids), level_ids)
    return passed_by, level_ids


def _variants(texts: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Yield the seven variants, each with its name: (output,)."""
    body = pc.replace_substring_regex(texts, FIRST_LINE, "", max_replacements=1)
    trimmed = {
        "without its first line": pc.utf8_trim_whitespace(body),
        "without its last line": _without_last_line(texts),
        "without its first and last line": _without_last_line(body),
    }
    yield "without asterisks", pc.replace_substring(texts, "*", "")
    yield from trimmed.items()
    for variant_name, variant in trimmed.items():
        yield f"{variant_name} and without asterisks", pc.replace_substring(variant, "*", "")


def _without_last_line(texts: pa.Array) -> pa.Array:
    return pc.utf8_trim_whitespace(pc.replace_substring_regex(texts, LAST_LINE, "", max_replacements=1))


NO_REASON = "the check can't tell"


@dataclass(frozen=True, slots=True)
class CheckedCriterion:
    """Criterion with the outcome of its check. output_ids: (output,)."""

    criterion: Criterion
    output_ids: pa.Array
    verdicts: CheckVerdicts


def grade_outputs(run_id: str, criterion: Criterion, output_ids: pa.Array, verdicts: CheckVerdicts) -> pa.Table:
    """Build the verdicts of one criterion, as `grade_checked` does."""
    return grade_checked(run_id, [CheckedCriterion(criterion, output_ids, verdicts)])


def grade_checked(run_id: str, checked: Sequence[CheckedCriterion]) -> pa.Table:
    """Build the verdicts of many checked criteria at once, as per-case criteria may number thousands.

    The level is the one that the check named, else the highest level for a pass and the lowest for a fail. A row with
    neither is unscored. Returns a table of `VERDICT_SCHEMA`, one row per criterion and output.
    """
    if not checked:
        return VERDICT_SCHEMA.empty_table()
    owners = pa.array(np.repeat(np.arange(len(checked)), [len(outcome.output_ids) for outcome in checked]))
    level_ids, scores = _levels(checked, owners)
    reasons = pc.fill_null(_column(checked, "reasons", pa.string()), NO_REASON)
    return verdict_rows(
        run_id,
        pa.array([outcome.criterion.id for outcome in checked]).take(owners),
        pa.array([outcome.criterion.method.type for outcome in checked]).take(owners),
        _joined_arrays([outcome.output_ids for outcome in checked], pa.string()),
        level_ids,
        scores,
        reasons=pc.if_else(level_ids.is_null(), reasons, pa.scalar(None, pa.string())),
        evidence=_column(checked, "evidence", pa.string()),
    )


def _levels(checked: Sequence[CheckedCriterion], owners: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Level and score of each row: (row,). owners: (row,), index of the row in `checked`."""
    ranked = [outcome.criterion.ranked_levels for outcome in checked]
    is_passed = _column(checked, "is_passed", pa.bool_())
    best, worst = (_ids_and_scores([levels[index] for levels in ranked]) for index in (-1, 0))
    level_ids, scores = (
        pc.if_else(is_passed, high.take(owners), low.take(owners)) for high, low in zip(best, worst, strict=True)
    )
    if all(outcome.verdicts.level_ids is None for outcome in checked):
        return level_ids, scores
    level_ids = pc.coalesce(_column(checked, "level_ids", pa.string()), level_ids)
    scores_by_key = {f"{owner} {level.id}": level.score for owner, levels in enumerate(ranked) for level in levels}
    keys = pc.binary_join_element_wise(owners.cast(pa.string()), level_ids, " ")
    indices = pc.index_in(keys, pa.array(list(scores_by_key), pa.string()))
    return level_ids, pa.array(list(scores_by_key.values()), pa.float64()).take(indices)


def _ids_and_scores(levels: list[Level]) -> tuple[pa.Array, pa.Array]:
    return pa.array([level.id for level in levels]), pa.array([level.score for level in levels], pa.float64())


def _column(checked: Sequence[CheckedCriterion], name: str, kind: pa.DataType) -> pa.Array:
    """One array of all checked criteria: (row,), null for those without it."""
    arrays = [(outcome, getattr(outcome.verdicts, name)) for outcome in checked]
    return _joined_arrays(
        [pa.nulls(len(outcome.output_ids), kind) if array is None else array for outcome, array in arrays], kind
    )


def _joined_arrays(arrays: list[pa.Array], kind: pa.DataType) -> pa.Array:
    alike = [array if array.type == kind else array.cast(kind) for array in arrays]
    return pa.concat_arrays(alike) if len(alike) > 1 else alike[0]  # usually one array, and a large one
