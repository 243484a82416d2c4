"""Votes on outputs, from the plan and the answers, and the verdicts they combine to.

Of a cascade's second judge only some votes are needed, as far as the first judge's votes are known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.verdicts import OPINION_SCHEMA, verdict_table
from gradebook.rubrics.prompts.combine_opinions import (
    NO_MAJORITY,
    Opinions,
    commonest_reason,
    find_unsure,
    level_shares,
)
from gradebook.rubrics.prompts.distributions import MEAN, VerdictRule, threshold_distance, verdict_of
from gradebook.tasks.judging.settings.judge import FIRST, THEN, Judge, Opinion, When

_TEXTS = ("output_id", "criterion_id", "level_id", "evidence", "rationale", "reason", "distribution", "paid_by")
ANSWER_SCHEMA = pa.schema([*(pa.field(name, pa.string()) for name in _TEXTS), pa.field("saved_usd", pa.float64())])
_ANSWER_COLUMNS = ("level_id", "evidence", "rationale", "distribution")
Answers = Mapping[Opinion, pa.Table]  # answers by vote, as `ANSWER_SCHEMA`
OpinionRows = dict[Opinion, pa.Table]  # one row per key, see `opinion_rows`
Flags = NDArray[np.bool_]


def pair_keys(output_ids: pa.ChunkedArray, criterion_ids: pa.Array) -> pa.Array:
    """Lookup keys: output and criterion joined in one text."""
    joined = pc.binary_join_element_wise(output_ids.combine_chunks(), criterion_ids, " ")
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def table_keys(table: pa.Table) -> pa.Array:
    """Lookup keys of a table's rows."""
    return pair_keys(table.column("output_id"), table.column("criterion_id").combine_chunks())


def opinion_rows(keys: pa.Array, planned: pa.Table, answers: pa.Table | None) -> pa.Table:
    """Ledger values of one vote for each key, else the answers. All columns: (key,).

    planned: the plan's rows of this vote. request_key: null where no such vote is wanted.
    """
    stored = planned.take(pc.index_in(keys, table_keys(planned)))
    answered = ANSWER_SCHEMA.empty_table() if answers is None else answers
    answered = answered.take(pc.index_in(keys, table_keys(answered)))
    is_stored = stored.column("status").is_valid()
    columns = {name: pc.if_else(is_stored, stored.column(name), answered.column(name)) for name in _ANSWER_COLUMNS}
    reasons = pc.if_else(answered.column("output_id").is_valid(), answered.column("reason"), pa.scalar("not_asked"))
    columns["reason"] = pc.if_else(is_stored, pa.scalar(None, pa.string()), reasons)
    columns["paid_by"] = pc.coalesce(stored.column("paid_by"), answered.column("paid_by"))
    columns["saved_usd"] = pc.if_else(is_stored, stored.column("cost_usd"), answered.column("saved_usd"))
    return pa.table(columns | {name: stored.column(name) for name in ("status", "request_key")})


@dataclass(frozen=True, slots=True)
class Escalated:
    """Reasons to ask the second judge of a cascade: (key,) each. is_audited: the output is in the audit's sample."""

    is_unsure: Flags
    is_audited: Flags

    @property
    def is_asked(self) -> Flags:
        """Whether it is asked at all."""
        return self.is_unsure | self.is_audited

    @property
    def reasons(self) -> pa.Array:
        """Reason for each key: doubt, audit or both; null where the second judge is not asked."""
        names = pa.array([None, "doubt", "audit", "both"])
        return names.take(pa.array(self.is_unsure + 2 * self.is_audited))

    def slice(self, start: int, stop: int) -> "Escalated":
        """Only these keys."""
        return Escalated(self.is_unsure[start:stop], self.is_audited[start:stop])


def find_escalated(when: When, keys: pa.Array, rows: OpinionRows, criteria: Sequence[Criterion]) -> Escalated:
    """Keys on which the second judge of a cascade is asked. Only the first judge's rows are read.

    when: the cascade's condition. keys: as of `pair_keys`. criteria: of the rubric; per-case criteria have no
    `near_threshold`.
    """
    first = {
        opinion: table for opinion, table in rows.items() if opinion.judge_index == FIRST and not opinion.is_swapped
    }
    is_wanted = np.stack([_is_wanted(table) for table in first.values()], axis=1)
    level_ids = _all_levels(first)
    opinions = _read_opinions(first, level_ids, dict.fromkeys(level_ids, 0.0))
    is_unsure = find_unsure(opinions, max(len(level_ids), 1), **when.doubts)
    if when.near_threshold is not None and level_ids:
        distances = _threshold_distances(keys, level_ids, level_shares(opinions, len(level_ids)), criteria)
        is_unsure = is_unsure | (distances < when.near_threshold)
    is_drawn = np.zeros(len(keys), dtype=np.bool_)
    if when.audit:
        is_drawn[:] = [when.is_audited(key.partition(" ")[0]) for key in keys.to_pylist()]
    return Escalated(is_unsure | ~is_wanted.any(axis=1), is_drawn)


def _threshold_distances(
    keys: pa.Array, level_ids: list[str], shares: NDArray[np.float64], criteria: Sequence[Criterion]
) -> NDArray[np.float64]:
    """Distance of each key's distribution from its criterion's threshold, as `threshold_distance`; NaN without one."""
    distances = np.full(len(keys), np.nan)
    criterion_ids = pc.list_element(pc.split_pattern(keys, " ", max_splits=1), 1)
    for criterion in criteria:
        if criterion.threshold is None and not criterion.gate:
            continue
        for row in np.flatnonzero(pc.equal(criterion_ids, criterion.id).to_numpy(zero_copy_only=False)):
            if not np.isnan(shares[row]).any():
                distribution = dict(zip(level_ids, shares[row].tolist(), strict=True))
                distances[row] = threshold_distance(distribution, criterion)
    return distances


def escalated_pairs(
    when: When, planned: pa.Table, answers: Answers, criteria: Sequence[Criterion]
) -> set[tuple[str, str]]:
    """Outputs and criteria of a plan file that the second judge is asked about. criteria: of the rubric."""
    second = rows_of(planned, Opinion(THEN))
    keys = table_keys(second)
    opinions = [opinion for opinion in answers if opinion.judge_index == FIRST] or [Opinion(FIRST)]
    rows = {opinion: opinion_rows(keys, rows_of(planned, opinion), answers.get(opinion)) for opinion in opinions}
    chosen = second.filter(pa.array(find_escalated(when, keys, rows, criteria).is_asked))
    return set(zip(*(chosen.column(name).to_pylist() for name in ("output_id", "criterion_id")), strict=True))


def combined_verdicts(
    run_id: str,
    judge: Judge,
    criterion: Criterion,
    output_ids: pa.ChunkedArray,
    rows: OpinionRows,
    escalated: Escalated | None,
) -> tuple[pa.Table, pa.Table]:
    """Verdicts on one criterion, as `VERDICT_SCHEMA`, and their votes, as `OPINION_SCHEMA`.

    rows: with is_replayed, one per output. escalated: by output, whether a cascade's second judge was asked.
    """
    rows = {opinion: ruled_rows(criterion, table, judge.verdict_rule_of(opinion)) for opinion, table in rows.items()}
    is_wanted = {opinion: _is_wanted(table) for opinion, table in rows.items()}
    is_asked = None if escalated is None else escalated.is_asked
    if is_asked is not None:
        is_wanted |= {opinion: flags & is_asked for opinion, flags in is_wanted.items() if opinion.judge_index == THEN}
    counted = {opinion: flags.copy() for opinion, flags in is_wanted.items() if not opinion.is_swapped}
    if is_asked is not None:
        counted |= {opinion: flags & ~is_asked for opinion, flags in counted.items() if opinion.judge_index == FIRST}
    verdicts = _verdicts(run_id, judge, criterion, output_ids, rows, counted)
    names = judge.member_names
    tables = []
    for opinion, flags in is_wanted.items():
        name = names[opinion.judge_index]
        reasons = escalated.reasons if escalated is not None and opinion.judge_index == THEN else None
        table = _opinion_table(run_id, name, opinion, criterion, output_ids, rows[opinion], reasons)
        tables.append(table.filter(pa.array(flags)))
    return verdicts, pa.concat_tables(tables)


def ruled_rows(criterion: Criterion, rows: pa.Table, rule: VerdictRule = MEAN) -> pa.Table:
    """Rows with the levels and the scores that a rule takes from their distributions.

    A row without a distribution has the score of its level, null without one.
    """
    levels = criterion.ranked_levels
    level_indices = pc.index_in(rows.column("level_id"), pa.array([level.id for level in levels]))
    scores = pa.array([level.score for level in levels]).take(level_indices.combine_chunks())
    distributions = rows.column("distribution")
    if distributions.null_count < len(distributions):
        ruled = [
            verdict_of(orjson.loads(text), criterion, rule) if text else (None, None)
            for text in distributions.to_pylist()
        ]
        level_ids, expected = zip(*ruled, strict=True)
        column_index = rows.schema.get_field_index("level_id")
        ruled_levels = pc.coalesce(pa.chunked_array([pa.array(level_ids, pa.string())]), rows.column("level_id"))
        rows = rows.set_column(column_index, "level_id", ruled_levels)
        scores = pc.coalesce(pa.array(expected, pa.float64()), scores)
    return rows.append_column("score", scores)


def _verdicts(
    run_id: str,
    judge: Judge,
    criterion: Criterion,
    output_ids: pa.ChunkedArray,
    rows: OpinionRows,
    counted: Mapping[Opinion, Flags],
) -> pa.Table:
    """Combine the counted votes. counted: vote -> (output,), whether it counts."""
    level_ids = [level.id for level in criterion.ranked_levels]
    scores = {level.id: level.score for level in criterion.ranked_levels}
    counting = {opinion: rows[opinion] for opinion in counted}
    opinions = _read_opinions(counting, level_ids, scores, criterion)
    opinions = Opinions(np.stack(list(counted.values()), axis=1), opinions.level_places, opinions.scores)
    combined = judge.combine([*counted], opinions, len(level_ids))
    speakers = pa.array(combined.speakers)
    firsts = pa.array(opinions.is_wanted.argmax(axis=1))
    level_indices = pa.array(combined.level_places, mask=combined.level_places < 0)
    return verdict_table(
        run_id,
        criterion,
        output_ids,
        pa.array(level_ids).take(level_indices),
        pa.array(combined.scores, mask=np.isnan(combined.scores)),
        reasons=_reasons(counting, opinions, combined.level_places, combined.is_split),
        evidence=_chosen_column(counting, "evidence", speakers),
        rationales=_chosen_column(counting, "rationale", speakers),
        request_keys=_chosen_column(counting, "request_key", firsts),
        is_replayed=_all_replayed(counting, opinions.is_wanted),
    )


def _opinion_table(
    run_id: str,
    name: str,
    opinion: Opinion,
    criterion: Criterion,
    output_ids: pa.ChunkedArray,
    rows: pa.Table,
    asked_for: pa.Array | None,
) -> pa.Table:
    count = rows.num_rows
    scores = rows.column("score")
    columns = {
        "run_id": pa.repeat(run_id, count),
        "output_id": output_ids,
        "criterion_id": pa.repeat(criterion.id, count),
        "judge": pa.repeat(name, count),
        "replicate": pa.repeat(pa.scalar(opinion.replicate, pa.int32()), count),
        "is_swapped": pa.repeat(opinion.is_swapped, count),
        "request_key": pc.fill_null(rows.column("request_key"), ""),  # rows without a key are filtered out later
        "status": pc.if_else(scores.is_valid(), "scored", "unscored"),
        "level_id": rows.column("level_id"),
        "score": scores,
        "reason": rows.column("reason"),
        "asked_for": pa.nulls(count, pa.string()) if asked_for is None else asked_for,
    }
    return pa.table(columns, schema=OPINION_SCHEMA)


def _is_wanted(rows: pa.Table) -> Flags:
    flags: Flags = rows.column("request_key").is_valid().to_numpy()
    return flags


def _all_levels(rows: OpinionRows) -> list[str]:
    """Levels in votes or their distributions: the most likely level overall may be the level of no vote."""
    level_ids = {level for table in rows.values() for level in pc.unique(table.column("level_id")).to_pylist() if level}
    for table in rows.values():
        for text in pc.unique(table.column("distribution")).to_pylist():
            level_ids |= orjson.loads(text).keys() if text else set()
    return sorted(level_ids)


def _read_opinions(
    rows: OpinionRows, level_ids: list[str], scores: Mapping[str, float], criterion: Criterion | None = None
) -> Opinions:
    """Rows as arrays with one column per vote. criterion: None if the scores do not matter."""
    all_levels = pa.array(level_ids, pa.string())
    level_indices = [
        pc.fill_null(pc.index_in(table.column("level_id"), all_levels), -1).to_numpy().astype(np.int64)
        for table in rows.values()
    ]
    level_scores = np.array([*(scores[level_id] for level_id in level_ids), np.nan])  # place -1 selects the NaN
    vote_scores = (
        [level_scores[column] for column in level_indices]
        if criterion is None
        else [pc.fill_null(table.column("score"), np.nan).to_numpy(zero_copy_only=False) for table in rows.values()]
    )
    is_wanted = np.stack([_is_wanted(table) for table in rows.values()], axis=1)
    return Opinions(
        is_wanted,
        np.stack(level_indices, axis=1),
        np.stack(vote_scores, axis=1),
        _probabilities(rows, level_ids, level_indices),
    )


def _probabilities(
    rows: OpinionRows, level_ids: list[str], level_indices: list[NDArray[np.int64]]
) -> NDArray[np.float64] | None:
    """(output, opinion, level): distributions; a vote without one puts all weight on its level. None if no vote has
    one.
    """
    if all(table.column("distribution").null_count == table.num_rows for table in rows.values()):
        return None
    shares = np.stack(
        [(column[:, None] == np.arange(len(level_ids))).astype(np.float64) for column in level_indices], axis=1
    )
    for index, table in enumerate(rows.values()):
        for row, text in enumerate(table.column("distribution").to_pylist()):
            if text:
                distribution = orjson.loads(text)
                shares[row, index] = [distribution.get(level_id, 0.0) for level_id in level_ids]
    return shares


def _chosen_column(rows: OpinionRows, column: str, chosen: pa.Array) -> pa.Array:
    """Column of the chosen vote of each row; null if none is chosen."""
    picked = pa.nulls(len(chosen), pa.string())
    for index, table in enumerate(rows.values()):
        picked = pc.if_else(pc.equal(chosen, index), table.column(column), picked)
    return picked


def _reasons(rows: OpinionRows, opinions: Opinions, level_indices: NDArray[np.int64], is_split: Flags) -> pa.Array:
    """Reasons for missing verdicts; null where there is a verdict."""
    columns = [table.column("reason").to_pylist() for table in rows.values()] if (level_indices < 0).any() else []
    reasons: list[str | None] = [None] * len(level_indices)
    for row in np.flatnonzero(level_indices < 0):
        if is_split[row]:
            reasons[row] = NO_MAJORITY
        else:
            wanted = zip(columns, opinions.is_wanted[row], strict=True)
            reasons[row] = commonest_reason([column[row] for column, is_wanted in wanted if is_wanted])
    return pa.array(reasons, pa.string())


def _all_replayed(rows: OpinionRows, is_wanted: Flags) -> pa.Array:
    replayed = np.stack(
        [pc.fill_null(table.column("is_replayed"), False).to_numpy() for table in rows.values()], axis=1
    )
    return pa.array((replayed | ~is_wanted).all(axis=1))


def rows_of(table: pa.Table, opinion: Opinion) -> pa.Table:
    """Rows of a plan, or of a table with its columns, that belong to one vote."""
    is_swapped = table.column("is_swapped")
    is_it = pc.and_(
        pc.and_(
            pc.equal(table.column("judge_index"), opinion.judge_index),
            pc.equal(table.column("replicate"), opinion.replicate),
        ),
        is_swapped if opinion.is_swapped else pc.invert(is_swapped),
    )
    return table if pc.all(is_it).as_py() else table.filter(is_it)


def predict_needed(judge: Judge, planned: pa.Table, criteria: Sequence[Criterion] = ()) -> pa.Array:
    """Whether each row of a plan file will be needed: (row,). For the second judge of a cascade, the first judge's rows
    decide.

    Null while the first judge is still to be asked. criteria: of the rubric.
    """
    is_second = pc.equal(planned.column("judge_index"), THEN).combine_chunks()
    needed = pa.repeat(True, planned.num_rows)
    if judge.when is None or not pc.any(is_second).as_py():
        return needed
    keys = table_keys(planned.filter(is_second))
    opinions = [opinion for opinion in judge.votes() if opinion.judge_index == FIRST and not opinion.is_swapped]
    rows = {opinion: opinion_rows(keys, rows_of(planned, opinion), None) for opinion in opinions}
    is_open = [
        pc.and_(table.column("request_key").is_valid(), table.column("status").is_null()).to_numpy()
        for table in rows.values()
    ]
    escalated = find_escalated(judge.when, keys, rows, criteria)
    is_asked = pa.array(escalated.is_asked, mask=np.any(is_open, axis=0) & ~escalated.is_audited)
    return pc.replace_with_mask(needed, is_second, is_asked)


def used_rows(judge: Judge, keys: pa.Array, rows: OpinionRows, criteria: Sequence[Criterion] = ()) -> OpinionRows:
    """Rows that a run used; of a cascade's second judge, only rows that the cascade needs, even if more are stored.

    keys: of the rows. criteria: of the rubric.
    """
    if judge.when is None:
        return rows
    is_asked = pa.array(find_escalated(judge.when, keys, rows, criteria).is_asked)
    return {
        opinion: table.filter(is_asked) if opinion.judge_index == THEN else table for opinion, table in rows.items()
    }
