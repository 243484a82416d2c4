"""Dry run: requests and cost of an evaluation, without leaving files; and faults that are known before the start."""

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from gradebook.rubrics.model.errors import BudgetReached, EndpointUnavailable
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.text.wording import price_words
from gradebook.tasks.datasets.ingest import Ingested
from gradebook.tasks.judging.budget import read_budget
from gradebook.tasks.judging.prices import BYTES_PER_TOKEN, find_price, unpriced_notes, worst_cost_usd
from gradebook.tasks.judging.replies.question import LABEL_TOKENS
from gradebook.tasks.judging.session.session import probe_members
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.ledger.ledger import settle_journals
from gradebook.tasks.planning.applying import condition_notes
from gradebook.tasks.planning.plan import RunPlan
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.runs.run import Run
from gradebook.tasks.stages.check_request import CheckedRequest
from gradebook.tasks.stages.notes import row_notes
from gradebook.tasks.stages.open_run import previewed_run
from gradebook.tasks.stages.pipeline import plan_evaluation
from gradebook.tasks.stages.submit import Stages
from gradebook.tasks.workspace.folder import RunFolder


def preview_run(request: EvaluationRequest) -> tuple[Ingested, RunPlan]:
    """Ingest into a temporary folder and plan. Raises `InputError` as the evaluation would before its first request."""
    with previewed_run(request, datetime.now(UTC)) as run:
        ingested, plan = plan_evaluation(run, Stages(), is_preview=True)
        return ingested, replace(plan, budget_note=_budget_note(run, plan), notes=_preview_notes(run, ingested))


def _preview_notes(run: Run, ingested: Ingested) -> tuple[str, ...]:
    """Sentences on conditions, rows that are not scored, outputs that may be wrong, and judges without a price."""
    conditions = condition_notes(run.folder, run.rubric, ingested.shards, ingested.output_count)
    return (*conditions, *ingested.notes, *row_notes(ingested), *unpriced_notes(run.asked_models))


def refuse_failing_start(request: EvaluationRequest, checked: CheckedRequest) -> None:
    """Raise a fault before Prefect starts, if it would end the run before its first judgment.

    `EndpointUnavailable` if no address of a judge answers, `BudgetReached` if the budget is below the price of any
    reply; neither if the ledger has every judgment. Scheduled and triggered runs record the fault in their row
    instead, because no terminal shows it.
    """
    if request.trigger != "manual" or checked.judge is None:
        return
    fault = _budget_fault(request.budget_usd, _least_worst_usd(checked.judge.online, checked.rubric))
    members = tuple(range(len(checked.judge.members)))
    if fault is None:
        try:
            probe_members(checked.judge, members, is_start=True)
        except EndpointUnavailable:
            pass
        else:
            return
    settle_journals(checked.lake)  # replies to a killed run are not asked for again
    _, plan = preview_run(request)
    if fault is not None and plan.asked_judges:
        raise fault
    probe_members(checked.judge, plan.asked_judges)


def _budget_note(run: Run, plan: RunPlan) -> str | None:
    """Why a budget pays for none or not all of the requests: each is sent only while its highest cost is left."""
    members = run.judge.members if run.judge else ()
    if run.request.budget_usd is None or not plan.request_count:
        return None
    record = RunFolder.below(run.lake.root, run.run_id).budget_file  # spend of the run that the evaluation would resume
    spent_usd = math.fsum(read_budget(record).values()) if record.exists() else 0.0
    left_usd = max(run.request.budget_usd - spent_usd, 0.0)
    judges = [one for index in plan.asked_judges if (one := members[index].as_model) is not None]
    least_usd = _least_worst_usd(judges, run.rubric)
    if fault := _budget_fault(left_usd, least_usd):
        return str(fault)
    prompt_tokens = BYTES_PER_TOKEN * sum(
        criterion.prompt_tokens for criterion in plan.criteria
    )  # a token for each byte
    usual_usd = _least_worst_usd(judges, run.rubric, round(prompt_tokens / plan.request_count))
    if (plan.cost_usd or 0.0) + usual_usd <= left_usd:
        return None
    requests = "any request" if usual_usd > left_usd else "all requests"
    return (
        f"budget: the {price_words(left_usd)} left may not pay for {requests}: each is sent only while its highest "
        f"possible cost is left, usually {price_words(usual_usd)}"
    )


def _budget_fault(left_usd: float | None, least_usd: float) -> BudgetReached | None:
    """Fault of a budget that is below the price of any reply. least_usd: from `_least_worst_usd`."""
    if left_usd is None or least_usd <= left_usd:
        return None
    return BudgetReached(
        f"budget: a reply alone could cost {price_words(least_usd)}, of {price_words(left_usd)} left; expected a "
        "larger --budget-usd, or a smaller `max_tokens` of the judge"
    )


def _least_worst_usd(judges: Sequence[JudgeSettings], rubric: Rubric, prompt_tokens: int = 0) -> float:
    """Highest cost of a request to the cheapest of these judges, for a prompt of this length; 0 without a judge."""
    own_limits = [getattr(criterion.method, "max_tokens", None) for criterion in rubric.criteria]
    costs = []
    for judge in judges:
        usual = LABEL_TOKENS if judge.mode == "logprobs" else judge.max_tokens
        tokens = min([usual, *(own_limit for own_limit in own_limits if own_limit)])
        limit = judge.token_limit(tokens)
        costs.append(worst_cost_usd(find_price(judge), prompt_tokens, limit, judge.service_tier))
    return min(costs, default=0.0)
