"""Plan of a run by the methods of its criteria."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.prompts.feedback import FEEDBACK_CRITERION_ID, usual_byte_counts
from gradebook.tasks.datasets.case_criteria import (
    CASE_CRITERIA,
    count_case_criteria,
    methods_used,
    refuse_no_criteria,
    write_case_criteria,
)
from gradebook.tasks.datasets.ingest import Ingested
from gradebook.tasks.judging.prices import BYTES_PER_TOKEN, Usage, cost_usd, find_price
from gradebook.tasks.judging.settings.embedder import Embedder
from gradebook.tasks.judging.settings.judge import Judge
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import lake_exists
from gradebook.tasks.methods.table import METHODS
from gradebook.tasks.planning.applying import applied_count
from gradebook.tasks.planning.cases import read_cases
from gradebook.tasks.planning.estimates import OpinionEstimate
from gradebook.tasks.planning.plan import CriterionPlan, Planning, RunPlan, sum_costs
from gradebook.tasks.planning.shard_plan import case_bytes
from gradebook.tasks.ratings.run_ratings import has_preferred, match_ratings, stored_unmatched_count
from gradebook.tasks.workspace.folder import RunFolder

FEEDBACK_COMPLETION_TOKENS = 150  # tokens of a usual text


def prepare_plan(
    lake: Lake, folder: RunFolder, rubric: Rubric, shards: tuple[str, ...], ratings: pa.Table | None = None
) -> None:
    """Write the per-case criteria, and the ratings matched with outputs, to the run's folder.

    ratings: of the request's file. Raises `OutputsError` if there is no criterion at all, `RatingsError` for a
    rating that fits several outputs.
    """
    own_count = write_case_criteria(folder, shards)
    refuse_no_criteria(rubric, own_count)
    if ratings is not None or "ratings" in methods_used(rubric, own_count) or has_preferred(rubric):
        match_ratings(lake if lake_exists(lake) else None, folder, rubric, shards, ratings)


def plan_run(  # noqa: PLR0913 - the run, its judge and its request
    lake: Lake,
    folder: RunFolder,
    rubric: Rubric,
    judge: Judge | None,
    ingested: Ingested,
    *,
    feedback: str | None = None,
    is_anew: bool = False,
    is_preview: bool = False,
    folders: tuple[Path, ...] | None = None,
    embedder: Embedder | None = None,
    baseline: str | None = None,
) -> RunPlan:
    """Write a plan file for each judged criterion and shard; sum up the missing judgments. First call `prepare_plan`.

    feedback: of the request; texts by the judge are the last line of the plan. is_anew: plan as if the ledger were
    empty; estimates still use past replies. is_preview: judgments in the journals of killed runs count as stored; a run
    settles them first. folders: of the dataset's files, for images and sounds; None: their names are read as text.
    embedder, baseline: of the request.

    A plan file has one row per wanted opinion: output_id, criterion_id, request_key, judge_index (among the judge's
    members), replicate, is_swapped; then the ledger's columns for the key: status, level_id, distribution, evidence,
    rationale, cost_usd, paid_by (a run_id), null for a missing judgment.
    """
    own_count = count_case_criteria(folder)
    criterion_plans = [
        CriterionPlan(
            criterion.id,
            criterion.method.type,
            applied_count(folder, criterion, ingested.shards) if criterion.applies else ingested.output_count,
        )
        for criterion in rubric.criteria
    ]
    criterion_plans += (
        [CriterionPlan(CASE_CRITERIA, "", own_count.criterion_count)] if own_count.criterion_count else []
    )
    with Planning(
        lake,
        folder,
        rubric,
        judge,
        ingested,
        own_count,
        folders,
        embedder,
        baseline,
        is_anew=is_anew,
        is_preview=is_preview,
    ) as planning:
        plans = [
            method.plan(planning, [criterion for criterion in rubric.criteria if criterion.method.kind == kind])
            for kind, method in METHODS.items()
        ]
    estimates = {name: of_criterion for plan in plans for name, of_criterion in plan.estimates.items()}
    criterion_plans = [
        _sum_up(criterion_plan, estimates[criterion_plan.criterion_id])
        if criterion_plan.criterion_id in estimates
        else criterion_plan
        for criterion_plan in criterion_plans
    ]
    if feedback:
        criterion_plans.append(_plan_feedback(judge, rubric, ingested))
    unmatched_count = stored_unmatched_count(folder.ratings_file) or 0
    asked_judges = tuple(sorted(frozenset[int]().union(*(plan.asked_judges for plan in plans))))
    shortened_count = sum(plan.shortened_count for plan in plans)
    return RunPlan(tuple(criterion_plans), unmatched_count, own_count, asked_judges, shortened_count)


def _sum_up(criterion_plan: CriterionPlan, opinion_estimates: Sequence[OpinionEstimate]) -> CriterionPlan:
    """Plan of a criterion with the sums over all opinions on it."""
    estimates = [opinion_estimate.estimate for opinion_estimate in opinion_estimates]
    return CriterionPlan(
        criterion_plan.criterion_id,
        criterion_plan.method,
        criterion_plan.row_count,
        sum(opinion_estimate.replayed_count for opinion_estimate in opinion_estimates),
        sum(opinion_estimate.request_count for opinion_estimate in opinion_estimates),
        prompt_tokens=sum(estimate.prompt_tokens for estimate in estimates),
        completion_tokens=sum(estimate.completion_tokens for estimate in estimates),
        cost_usd=sum_costs(estimate.cost_usd for estimate in estimates),
        cost_low_usd=sum_costs(estimate.cost_low_usd for estimate in estimates),
        cost_high_usd=sum_costs(estimate.cost_high_usd for estimate in estimates),
        cached_tokens=sum(estimate.cached_tokens for estimate in estimates),
        at_most_count=sum(opinion_estimate.at_most_count for opinion_estimate in opinion_estimates),
        open_count=sum(opinion_estimate.open_count for opinion_estimate in opinion_estimates),
    )


def _plan_feedback(judge: Judge | None, rubric: Rubric, ingested: Ingested) -> CriterionPlan:
    """Estimate tokens and cost of the feedback texts, as if the ledger had none; zero for recorded replies."""
    writer = judge.writer.as_model if judge else None
    if writer is None:
        return CriterionPlan(FEEDBACK_CRITERION_ID, "judge", 0)
    request_count = ingested.output_count + len(ingested.models)
    verdict_bytes, group_bytes = usual_byte_counts(rubric.criteria)
    case_byte_count = sum(case_bytes(case) for shard in ingested.shards for _, case in read_cases(shard))
    prompt_bytes = ingested.output_count * verdict_bytes + case_byte_count + len(ingested.models) * group_bytes
    usage = Usage(round(prompt_bytes / BYTES_PER_TOKEN), completion_tokens=request_count * FEEDBACK_COMPLETION_TOKENS)
    return CriterionPlan(
        FEEDBACK_CRITERION_ID,
        "judge",
        request_count,
        request_count=request_count,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cost_usd=cost_usd(find_price(writer), usage, request_count),
    )
