"""Votes on outputs, from the plan and the answers, and the verdicts they combine to."""

from collections.abc import Mapping

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gradebook.rubrics.model.opinions import OPINION_SCHEMA
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.verdicts import verdict_table
from gradebook.rubrics.prompts.combine_opinions import (
    NO_MAJORITY,
    Opinions,
    combine_opinions,
    commonest_reason,
    find_unsure,
)
from gradebook.rubrics.prompts.token_probabilities import expected_score
from gradebook.tasks.judging.settings.panels import (
    FIRST,
    THEN,
    CascadeSettings,
    Judge,
    Opinion,
    PanelSettings,
    member_names,
)

_TEXTS = ("output_id", "criterion_id", "level_id", "evidence", "rationale", "reason", "distribution", "paid_by")
ANSWER_SCHEMA = pa.schema([*(pa.field(name, pa.string()) for name in _TEXTS), pa.field("saved_usd", pa.float64())])
_ANSWER_COLUMNS = ("level_id", "evidence", "rationale", "distribution")
Answers = Mapping[Opinion, pa.Table]  # answers by vote, as `ANSWER_SCHEMA`
OpinionRows = dict[Opinion, pa.Table]  # one row per key, see `opinion_rows`
Flags = NDArray[np.bool_]


def place_keys(output_ids: pa.ChunkedArray, criterion_ids: pa.Array) -> pa.Array:
    """Lookup keys: output and criterion joined in one text."""
    joined = pc.binary_join_element_wise(output_ids.combine_chunks(), criterion_ids, " ")
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def table_keys(table: pa.Table) -> pa.Array:
    """Lookup keys of a table's rows."""
    return place_keys(table.column("output_id"), table.column("criterion_id").combine_chunks())


def opinion_rows(keys: pa.Array, planned: pa.Table, answers: pa.Table | None) -> pa.Table:
    """Ledger values of one vote for each key, else the answers. All columns: (key,).

    planned: the plan's rows of this vote. request_key: null where no such vote is wanted.
    """
    held = planned.take(pc.index_in(keys, table_keys(planned)))
    answered = ANSWER_SCHEMA.empty_table() if answers is None else answers
    answered = answered.take(pc.index_in(keys, table_keys(answered)))
    is_held = held.column("status").is_valid()
    columns = {name: pc.if_else(is_held, held.column(name), answered.column(name)) for name in _ANSWER_COLUMNS}
    reasons = pc.if_else(answered.column("output_id").is_valid(), answered.column("reason"), pa.scalar("not_asked"))
    columns["reason"] = pc.if_else(is_held, pa.scalar(None, pa.string()), reasons)
    columns["paid_by"] = pc.coalesce(held.column("paid_by"), answered.column("paid_by"))
    columns["saved_usd"] = pc.if_else(is_held, held.column("cost_usd"), answered.column("saved_usd"))
    return pa.table(columns | {name: held.column(name) for name in ("status", "request_key")})


def first_judge_unsure(judge: CascadeSettings, rows: OpinionRows) -> Flags:
    """Whether the second judge of a cascade is asked: (key,). Only the first judge's rows are read."""
    first = {
        opinion: table for opinion, table in rows.items() if opinion.judge_index == FIRST and not opinion.is_swapped
    }
    is_wanted = np.stack([_is_wanted(table) for table in first.values()], axis=1)
    level_ids = _named_levels(first)
    when = judge.when
    is_unsure = find_unsure(
        _read_opinions(first, level_ids, dict.fromkeys(level_ids, 0.0)),
        max(len(level_ids), 1),
        share_below=when.share_below,
        is_disagreement=when.disagreement,
        is_unscored=when.unscored,
    )
    return is_unsure | ~is_wanted.any(axis=1)


def escalated_places(judge: CascadeSettings, planned: pa.Table, answers: Answers) -> set[tuple[str, str]]:
    """Outputs and criteria of a plan file that the second judge is asked about."""
    second = rows_of(planned, Opinion(THEN))
    keys = table_keys(second)
    opinions = [opinion for opinion in answers if opinion.judge_index == FIRST] or [Opinion(FIRST)]
    rows = {opinion: opinion_rows(keys, rows_of(planned, opinion), answers.get(opinion)) for opinion in opinions}
    chosen = second.filter(pa.array(first_judge_unsure(judge, rows)))
    return set(zip(*(chosen.column(name).to_pylist() for name in ("output_id", "criterion_id")), strict=True))


def combined_verdicts(
    run_id: str,
    judge: Judge,
    criterion: Criterion,
    output_ids: pa.ChunkedArray,
    rows: OpinionRows,
    is_unsure: Flags | None,
) -> tuple[pa.Table, pa.Table]:
    """Verdicts on one criterion, as `VERDICT_SCHEMA`, and their votes, as `OPINION_SCHEMA`.

    rows: with is_replayed, one per output. is_unsure: (output,), whether a cascade's second judge was asked.
    """
    asked = {opinion: _is_wanted(table) for opinion, table in rows.items()}
    if is_unsure is not None:
        asked |= {opinion: flags & is_unsure for opinion, flags in asked.items() if opinion.judge_index == THEN}
    counted = {opinion: flags.copy() for opinion, flags in asked.items() if not opinion.is_swapped}
    if is_unsure is not None:
        counted |= {opinion: flags & ~is_unsure for opinion, flags in counted.items() if opinion.judge_index == FIRST}
    verdicts = _verdicts(run_id, judge, criterion, output_ids, rows, counted)
    names = member_names(judge)
    tables = [
        _opinion_table(run_id, names[opinion.judge_index], opinion, criterion, output_ids, rows[opinion]).filter(
            pa.array(flags)
        )
        for opinion, flags in asked.items()
    ]
    return verdicts, pa.concat_tables(tables)


def opinion_scores(criterion: Criterion, rows: pa.Table) -> pa.Array:
    """Score of each row's level, or the expected score under its distribution; null without a level."""
    levels = criterion.ranked_levels
    places = pc.index_in(rows.column("level_id"), pa.array([level.id for level in levels]))
    scores = pa.array([level.score for level in levels]).take(places.combine_chunks())
    return pc.coalesce(_expected_scores(criterion, rows.column("distribution")), scores)


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
    aggregate = judge.aggregate if isinstance(judge, PanelSettings) else None
    judges = np.array([opinion.judge_index if aggregate else 0 for opinion in counted])
    opinions = _read_opinions(counting, level_ids, scores, criterion)
    opinions = Opinions(np.stack(list(counted.values()), axis=1), opinions.level_places, opinions.scores)
    combined = combine_opinions(opinions, judges, aggregate or "mean", len(level_ids))
    speakers = pa.array(combined.speakers)
    firsts = pa.array(opinions.is_wanted.argmax(axis=1))
    places = pa.array(combined.level_places, mask=combined.level_places < 0)
    return verdict_table(
        run_id,
        criterion,
        output_ids,
        pa.array(level_ids).take(places),
        pa.array(combined.scores, mask=np.isnan(combined.scores)),
        reasons=_reasons(counting, opinions, combined.level_places, combined.is_split),
        evidence=_picked(counting, "evidence", speakers),
        rationales=_picked(counting, "rationale", speakers),
        request_keys=_picked(counting, "request_key", firsts),
        is_replayed=_all_replayed(counting, opinions.is_wanted),
    )


def _opinion_table(
    run_id: str, name: str, opinion: Opinion, criterion: Criterion, output_ids: pa.ChunkedArray, rows: pa.Table
) -> pa.Table:
    count = rows.num_rows
    scores = opinion_scores(criterion, rows)
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
    }
    return pa.table(columns, schema=OPINION_SCHEMA)


def _is_wanted(rows: pa.Table) -> Flags:
    flags: Flags = rows.column("request_key").is_valid().to_numpy()
    return flags


def _named_levels(rows: OpinionRows) -> list[str]:
    """All levels named by votes or their distributions: the most likely level overall may be no vote's own."""
    named = {level for table in rows.values() for level in pc.unique(table.column("level_id")).to_pylist() if level}
    for table in rows.values():
        for text in pc.unique(table.column("distribution")).to_pylist():
            named |= orjson.loads(text).keys() if text else set()
    return sorted(named)


def _read_opinions(
    rows: OpinionRows, level_ids: list[str], scores: Mapping[str, float], criterion: Criterion | None = None
) -> Opinions:
    """Rows as arrays with one column per vote. criterion: None if the scores do not matter."""
    known = pa.array(level_ids, pa.string())
    places = [
        pc.fill_null(pc.index_in(table.column("level_id"), known), -1).to_numpy().astype(np.int64)
        for table in rows.values()
    ]
    level_scores = np.array([*(scores[level_id] for level_id in level_ids), np.nan])  # place -1 selects the NaN
    found = (
        [level_scores[column] for column in places]
        if criterion is None
        else [
            pc.fill_null(opinion_scores(criterion, table), np.nan).to_numpy(zero_copy_only=False)
            for table in rows.values()
        ]
    )
    is_wanted = np.stack([_is_wanted(table) for table in rows.values()], axis=1)
    return Opinions(
        is_wanted, np.stack(places, axis=1), np.stack(found, axis=1), _probabilities(rows, level_ids, places)
    )


def _probabilities(
    rows: OpinionRows, level_ids: list[str], places: list[NDArray[np.int64]]
) -> NDArray[np.float64] | None:
    """(output, opinion, level): distributions; a vote without one puts all weight on its level. None if no vote has
    one.
    """
    if all(table.column("distribution").null_count == table.num_rows for table in rows.values()):
        return None
    shares = np.stack([(column[:, None] == np.arange(len(level_ids))).astype(np.float64) for column in places], axis=1)
    for index, table in enumerate(rows.values()):
        for row, text in enumerate(table.column("distribution").to_pylist()):
            if text:
                distribution = orjson.loads(text)
                shares[row, index] = [distribution.get(level_id, 0.0) for level_id in level_ids]
    return shares


def _picked(rows: OpinionRows, column: str, chosen: pa.Array) -> pa.Array:
    """Column of the chosen vote of each row; null if none is chosen."""
    picked = pa.nulls(len(chosen), pa.string())
    for index, table in enumerate(rows.values()):
        picked = pc.if_else(pc.equal(chosen, index), table.column(column), picked)
    return picked


def _reasons(rows: OpinionRows, opinions: Opinions, places: NDArray[np.int64], is_split: Flags) -> pa.Array:
    """Reasons for missing verdicts; null where there is a verdict."""
    columns = [table.column("reason").to_pylist() for table in rows.values()] if (places < 0).any() else []
    reasons: list[str | None] = [None] * len(places)
    for row in np.flatnonzero(places < 0):
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


def _expected_scores(criterion: Criterion, distributions: pa.ChunkedArray) -> pa.Array:
    """Expected score under each distribution; null without one."""
    if distributions.null_count == len(distributions):
        return pa.nulls(len(distributions), pa.float64())
    shares = [orjson.loads(text) if text else {} for text in distributions.to_pylist()]
    return pa.array([expected_score(each, criterion) if each else None for each in shares], pa.float64())


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
