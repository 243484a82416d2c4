"""Method `judge`: one level per output, from the ledger or else by a question about the output."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.methods import JudgeMethod
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.verdicts import verdict_table
from gradebook.rubrics.prompts.prompt import View
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.datasets.case_criteria import CASE_CRITERIA, OwnCriterion
from gradebook.tasks.judging.opinions.rows import (
    Answers,
    OpinionRows,
    combined_verdicts,
    find_escalated,
    opinion_rows,
    pair_keys,
    rows_of,
    ruled_rows,
    used_rows,
)
from gradebook.tasks.judging.settings.judge import ONLY
from gradebook.tasks.methods.judge_shard import JudgedShards, SavedCosts
from gradebook.tasks.methods.method import NO_JUDGE, ScoringMethod, ScoringSetup, leave_unscored
from gradebook.tasks.planning.applying import applied_shard
from gradebook.tasks.planning.cases import plan_cases, views_of
from gradebook.tasks.planning.estimates import asked_judges, estimate_opinion
from gradebook.tasks.planning.plan import MethodPlan, Planning
from gradebook.tasks.planning.shard_plan import ShardCases, ShardPlanner, read_shard
from gradebook.tasks.ratings.run_ratings import prefers_people, score_ratings
from gradebook.tasks.system.files import write_parquet
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import Timing

RATINGS_METHOD = "ratings"  # method of a verdict by people
JudgeUnrated = Callable[[pa.ChunkedArray], pa.Table]


class JudgeScoring(ScoringMethod):
    """Levels by the run's judge; if the rubric prefers people, rated outputs get their ratings instead."""

    reads_whole_shards = True  # all criteria are asked together

    def plan(self, planning: Planning, criteria: Sequence[Criterion]) -> MethodPlan:
        """Write a plan file for each criterion and shard, and one for the per-case criteria of each shard."""
        folder = planning.folder
        is_asked = bool(criteria) or planning.own_count.criterion_count > 0
        asking = planning.asking if is_asked else None
        if asking is None:
            return MethodPlan()
        for criterion in criteria:
            refuse_own_examples(criterion, planning.ingested.shards)
        planner, shortened_count = ShardPlanner(planning.ledger, folder, asking.judge), 0
        for index, shard in enumerate(planning.ingested.shards):
            views = views_of(criteria, folder, index)
            read_shown = partial(_read_cases, shard, index, folder, planning.folders, views)
            cases = replace(read_shown(is_heard=False), heard=cache(partial(read_shown, is_heard=True)))
            shortened_count += cases.shortened_count
            planner.plan(criteria, cases, index)
            planner.plan_own(cases, index)
        tallies = {
            name: planner.tallies.get(name, {}) for name in (*(criterion.id for criterion in criteria), CASE_CRITERIA)
        }
        begun: set[int] = set()  # judges with earlier requests about the outputs
        estimates = {
            name: [
                estimate_opinion(asking.judge, opinion, name, tally, asking.past, begun)
                for opinion, tally in of_criterion.items()
            ]
            for name, of_criterion in tallies.items()
        }
        return MethodPlan(estimates, frozenset(asked_judges(tallies)), shortened_count)

    def score_shard(
        self, setup: ScoringSetup, criterion: Criterion, shard: str, shard_index: int, timing: Timing
    ) -> pa.Table:
        """Judge one criterion over one shard. Raises as `JudgedShards.answers`."""
        asked_shard = applied_shard(setup.folder, criterion, shard, shard_index)
        output_ids = pq.read_table(asked_shard, columns=["output_id"]).column(0)
        if not prefers_people(criterion):
            return judge_outputs(setup, [(criterion, output_ids)], criterion.id, shard, shard_index, timing)

        def judge_others(others: pa.ChunkedArray) -> pa.Table:
            return judge_outputs(setup, [(criterion, others)], criterion.id, shard, shard_index, timing)

        return score_preferred(setup.folder.run_id, criterion, output_ids, setup.folder.ratings_file, judge_others)

    def score_own(
        self, setup: ScoringSetup, own_criteria: Sequence[OwnCriterion], shard: str, shard_index: int, timing: Timing
    ) -> pa.Table:
        """Judge outputs on their per-case criteria. Raises as `JudgedShards.answers`."""
        output_ids = pq.read_table(shard, columns=["output_id"]).column(0)
        criterion_outputs = [(own.criterion, output_ids.take(own.row_indices)) for own in own_criteria]
        return judge_outputs(setup, criterion_outputs, CASE_CRITERIA, shard, shard_index, timing)


def refuse_own_examples(criterion: Criterion, shards: Sequence[str]) -> None:
    """Raise `InputError` if an example of the criterion comes from a case under evaluation: it would grade itself."""
    case_ids = {example.case_id for example in criterion.method_as(JudgeMethod).examples if example.case_id is not None}
    if not case_ids:
        return
    example_cases = pa.array(sorted(case_ids))
    evaluated: set[str] = set()
    for shard in shards:
        cases = pq.read_table(shard, columns=["case_id"]).column(0)
        evaluated |= set(pc.unique(cases.filter(pc.is_in(cases, example_cases))).to_pylist())
    if evaluated:
        names = ", ".join(sorted(evaluated))
        raise InputError(
            f"criterion {criterion.id}: method.examples",
            f"examples from {counted(len(evaluated), 'case')} of these outputs ({names})",
            "examples from other cases: leave these cases out of the outputs, or the examples out of the rubric",
        )


def _read_cases(
    shard: str,
    index: int,
    folder: RunFolder,
    folders: tuple[Path, ...] | None,
    views: Collection[View],
    *,
    is_heard: bool,
) -> ShardCases:
    with_steps = any(view.sees != "answer" for view in views)
    return read_shard(plan_cases(shard, index, folder, folders, is_heard=is_heard, with_steps=with_steps), views)


def score_preferred(
    run_id: str, criterion: Criterion, output_ids: pa.ChunkedArray, ratings_file: Path, judge_unrated: JudgeUnrated
) -> pa.Table:
    """Verdicts of a criterion that prefers people: `VERDICT_SCHEMA`, one row per output, in order.

    judge_unrated: verdicts of the judge on the unrated outputs, in the given order; not called if all are rated. The
    method of a verdict by people is `ratings`.
    """
    if not ratings_file.exists():
        return judge_unrated(output_ids)
    people = score_ratings(run_id, criterion, pa.table({"output_id": output_ids}), ratings_file)
    is_scored = pc.is_valid(people.column("score"))
    methods = pa.repeat(RATINGS_METHOD, people.num_rows)
    people = people.set_column(people.schema.get_field_index("method"), people.schema.field("method"), methods)
    if pc.all(is_scored).as_py():
        return people
    judged = judge_unrated(output_ids.filter(pc.invert(is_scored)))
    # The judge's rows follow all of the people's, in the outputs' order.
    judged_indices = pc.add(pc.cumulative_sum(pc.invert(is_scored).cast(pa.int64())), people.num_rows - 1)
    order = pc.if_else(is_scored, pa.array(range(people.num_rows), pa.int64()), judged_indices)
    return pa.concat_tables([people, judged]).take(order)


def judge_outputs(
    setup: ScoringSetup,
    wanted: Sequence[tuple[Criterion, pa.ChunkedArray]],
    plan_name: str,
    shard: str,
    shard_index: int,
    timing: Timing,
) -> pa.Table:
    """Judge outputs of a shard, each on its criterion: `VERDICT_SCHEMA`, in the given order.

    wanted: pairs (criterion, ids of its outputs). plan_name: of the plan files that contain them all. Without a
    judge, all are unscored. Raises as `JudgedShards.answers`.
    """
    folder, judged = setup.folder, setup.judged
    if judged is None:
        return pa.concat_tables(
            [
                leave_unscored(folder.run_id, criterion, pa.table({"output_id": ids}), NO_JUDGE)
                for criterion, ids in wanted
            ]
        )
    output_ids = pa.chunked_array([chunk for _, ids in wanted for chunk in ids.chunks], pa.string())
    criterion_ids = pa.concat_arrays([pa.repeat(criterion.id, len(ids)) for criterion, ids in wanted])
    keys = pair_keys(output_ids, criterion_ids)
    planned = pq.read_table(folder.plan_file(plan_name, shard_index))
    rows = _rows_by_opinion(folder.run_id, keys, planned, judged.answers(shard, shard_index), judged)
    timing.row_count = len(keys)
    _count_replays(timing, judged.saved, used_rows(judged.judge, keys, rows, judged.criteria))
    if judged.judge.has_several_votes:
        return _combine_votes(folder, wanted, keys, plan_name, shard_index, judged, rows)
    (only,) = rows.values()
    tables, offset = [], 0
    for criterion, ids in wanted:
        ruled = ruled_rows(criterion, only.slice(offset, len(ids)), judged.judge.verdict_rule_of(ONLY))
        tables.append(_judged_table(folder.run_id, criterion, ids, ruled))
        offset += len(ids)
    return pa.concat_tables(tables)


def _rows_by_opinion(
    run_id: str, keys: pa.Array, planned: pa.Table, answers: Answers, judged: JudgedShards
) -> OpinionRows:
    """Values of each vote for each key, with is_replayed."""
    rows: OpinionRows = {}
    for opinion in judged.judge.votes():
        votes = opinion_rows(keys, rows_of(planned, opinion), answers.get(opinion))
        is_replayed = _is_replayed(votes, run_id, judged.is_recorded(opinion.judge_index))
        rows[opinion] = votes.append_column("is_replayed", is_replayed)
    return rows


def _combine_votes(
    folder: RunFolder,
    wanted: Sequence[tuple[Criterion, pa.ChunkedArray]],
    keys: pa.Array,
    plan_name: str,
    shard_index: int,
    judged: JudgedShards,
    rows: OpinionRows,
) -> pa.Table:
    """Verdicts combined from several votes; the votes are written to the run's folder."""
    judge = judged.judge
    escalated = None if judge.when is None else find_escalated(judge.when, keys, rows, judged.criteria)
    verdicts, opinions, offset = [], [], 0
    for criterion, ids in wanted:
        next_offset = offset + len(ids)
        criterion_rows = {opinion: table.slice(offset, len(ids)) for opinion, table in rows.items()}
        criterion_escalated = None if escalated is None else escalated.slice(offset, next_offset)
        combined = combined_verdicts(folder.run_id, judge, criterion, ids, criterion_rows, criterion_escalated)
        verdicts.append(combined[0])
        opinions.append(combined[1])
        offset = next_offset
    write_parquet(folder.detail_file("opinions", plan_name, shard_index), pa.concat_tables(opinions))
    return pa.concat_tables(verdicts)


def _is_replayed(rows: pa.Table, run_id: str, is_recorded: bool) -> pa.ChunkedArray:
    """Whether a scored verdict was recorded, or paid for by another run."""
    is_of_others = pc.fill_null(pc.not_equal(rows.column("paid_by"), run_id), is_recorded)
    return pc.and_(rows.column("level_id").is_valid(), pc.or_(is_of_others, is_recorded))


def _judged_table(run_id: str, criterion: Criterion, output_ids: pa.ChunkedArray, rows: pa.Table) -> pa.Table:
    """Verdicts of one criterion with one vote each, as `VERDICT_SCHEMA`. rows: with is_replayed and score."""
    return verdict_table(
        run_id,
        criterion,
        output_ids,
        rows.column("level_id"),
        rows.column("score"),
        reasons=rows.column("reason"),
        evidence=rows.column("evidence"),
        rationales=rows.column("rationale"),
        request_keys=rows.column("request_key"),
        is_replayed=rows.column("is_replayed"),
    )


def _count_replays(timing: Timing, saved: SavedCosts, rows: OpinionRows) -> None:
    """Add the cost that other runs paid to the saved cost, but not this run's own cost before an interruption."""
    for table in rows.values():
        replayed = table.filter(table.column("is_replayed"))
        # saved_usd is 0 for recorded replies
        costs = (replayed.column(name).to_pylist() for name in ("request_key", "saved_usd"))
        saved.count(timing, replayed.num_rows, dict(zip(*costs, strict=True)))
