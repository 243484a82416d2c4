"""Tables of a published run and of a plan, on stdout."""

from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from gradebook.flows.display.terminal import people, plain, table_titled
from gradebook.flows.display.verdict import show_verdict
from gradebook.rubrics.model.counts import counted
from gradebook.tasks.comparing.sentences import each_once
from gradebook.tasks.lake.rows import model_name
from gradebook.tasks.planning.plan import RunPlan
from gradebook.tasks.published.summary import RunSummary, cost_words, other_model
from gradebook.tasks.published.verdict import question_words
from gradebook.tasks.system.number_format import (
    bounded_rate_words,
    interval_words,
    no_interval_words,
    price_words,
    rate_words,
    score_words,
    sqrt_words,
    with_interval,
)

MOST_STAGES = 4


def show_summary(summary: RunSummary, report: str | None, lake_words: Sequence[str] = ()) -> None:
    """Print the verdict on a published run, then scores, criteria and costs. lake_words: options that name its lake."""
    run = summary.run
    verdict = summary.verdict
    show_verdict(verdict, lake_words)
    people.print(
        f"[bold]{escape(plain(run['rubric_id']))} {run['rubric_version']}[/] over {escape(plain(run['dataset']))}"
    )
    for note in run["notes"] or ():
        people.print(f"[yellow]note:[/] {escape(plain(note))}")
    people.print(_score_table(summary))
    people.print(_criterion_table(summary))
    for row in summary.unscored:
        if row["reason"] == "no_judge":  # a note names the criteria
            continue
        why = row["example"].removeprefix(f"{row['reason']}: ")
        words = row["reason"] if why == row["reason"] else f"{row['reason']}, such as: {why}"
        count = counted(row["verdict_count"], "verdict")
        people.print(f"[yellow]unscored:[/] {count}, {escape(plain(words))}")
    if summary.comparison is not None:
        from gradebook.flows.display.comparison import show_run_comparison

        show_run_comparison(summary.comparison)
    _show_opinions(summary)
    _show_calibration(summary)
    people.print(escape(cost_words(summary.costs)))
    people.print(_time_words(summary))
    if any(each.model is None or each.brief not in verdict.sentence for each in summary.unmet):
        for unmet in summary.unmet:
            people.print(f"[red]not met:[/] {escape(plain(unmet))}")
    for sentence in summary.waived:
        people.print(f"not counted by --gate {summary.run_gate}: {escape(plain(sentence))}")
    people.print(f"run {run['run_id']}, published as version {run['version']}", highlight=False)
    if summary.report_fault:
        fault = f"{summary.report_fault}; `gradebook report {run['run_id']}` tries again"
        people.print(f"[yellow]no report could be drawn:[/] {escape(plain(fault))}", soft_wrap=True)
    elif report:
        people.print(f"report {report}", highlight=False, soft_wrap=True)


def show_plan(plan: "RunPlan", output_count: int, budget_usd: float | None) -> None:
    """Print the requests and the cost of a run."""
    headings = ("rows", "replayed", "to ask", "estimated", "tokens in", "tokens out")
    table = table_titled(f"plan over {counted(output_count, 'output')}", "criterion", "method", right=headings)
    for row in plan.criteria:
        counts = (f"{count:,}" for count in (row.row_count, row.replayed_count, row.request_count))
        tokens = (f"{count:,}" for count in (row.prompt_tokens, row.completion_tokens))
        estimated = usd_range_words(row.cost_usd, row.cost_low_usd, row.cost_high_usd)
        table.add_row(escape(plain(row.criterion_id)), row.method, *counts, estimated, *tokens)
    people.print(table)
    budget = "" if budget_usd is None else f" of a budget of {price_words(budget_usd)}"
    estimated = usd_range_words(plan.cost_usd, plan.cost_low_usd, plan.cost_high_usd)
    people.print(f"{counted(plan.request_count, 'request')}, about {estimated}{budget}")
    if plan.at_most_count:
        people.print(
            f"up to {plan.at_most_count:,} of them go to the second judge, which is asked if the first is unsure; the "
            "estimate uses the share of past runs, or all of them if that share is unknown"
        )


def usd_range_words(cost_usd: float | None, low_usd: float | None, high_usd: float | None) -> str:
    """Dollars and their range: $1.20 ($0.950 to $1.60)."""
    if cost_usd is None or low_usd is None or high_usd is None or low_usd == high_usd:
        return price_words(cost_usd)
    return with_interval(cost_usd, low_usd, high_usd, price_words)


def _score_table(summary: RunSummary) -> Table:
    headings = ("mean", "95% interval", "pass", "gate fails", "coverage", "outputs", "billed")
    table = table_titled("scores by model", "model", right=headings)
    has_gate = any(row["is_gate"] for row in summary.criteria)
    for row in summary.scores:
        table.add_row(
            escape(_model(row)),
            score_words(row["mean"]),
            no_interval_words(row.get("cluster_count"))
            if row["ci_low"] is None
            else interval_words(row["ci_low"], row["ci_high"]),
            rate_words(row["pass_rate"]),
            bounded_rate_words(row["gate_failure_rate"], row.get("gate_failure_high")) if has_gate else "no gate",
            rate_words(row["coverage_rate"]),
            f"{row['output_count']:,}",
            price_words(row["cost_usd"]),
        )
    return table


def _criterion_table(summary: RunSummary) -> Table:
    models = {(row["model"], row["checkpoint"]): _model(row) for row in summary.criteria}
    table = table_titled("mean (coverage) by criterion", "criterion")
    questions = {row["criterion_id"]: question_words(row.get("description")) for row in summary.criteria}
    table.add_column("weight", justify="right")
    for name in models.values():
        table.add_column(escape(name), justify="right")
    if any(questions.values()):
        table.add_column("question")
    cells: dict[str, dict[tuple[str, str | None], dict[str, Any]]] = {}
    for row in summary.criteria:
        cells.setdefault(row["criterion_id"], {})[row["model"], row["checkpoint"]] = row
    for criterion_id, by_model in cells.items():
        (first, *_) = by_model.values()
        weight = "gate" if first["is_gate"] else "per case" if first["weight"] is None else score_words(first["weight"])
        table.add_row(
            escape(plain(criterion_id)),
            weight,
            *(_mean_and_coverage(by_model.get(model)) for model in models),
            *([escape(plain(questions[criterion_id]))] if any(questions.values()) else []),
        )
    return table


def _show_opinions(summary: RunSummary) -> None:
    """Print the judge's preferences, and its agreement with itself and others, where there are some."""
    for rows, table in ((summary.preferences, _preference_table), (summary.noise, _noise_table)):
        if rows:
            people.print(table(summary))


def _preference_table(summary: RunSummary) -> Table:
    headings = ("pairs", "wins", "ties", "losses", "win rate", "95% interval", "position flips")
    table = table_titled("preferences of the judge", "criterion", "model", "against", right=headings)
    for row in summary.preferences:
        counts = (f"{row[name]:,}" for name in ("pair_count", "win_count", "tie_count", "loss_count"))
        rates = (rate_words(row["win_rate"]), interval_words(row["ci_low"], row["ci_high"], rate_words))
        names = (row["criterion_id"], _model(row), other_model(row))
        table.add_row(*(escape(plain(name)) for name in names), *counts, *rates, rate_words(row["position_flip_rate"]))
    return table


def _noise_table(summary: RunSummary) -> Table:
    headings = ("outputs", "opinions", "output sd", "judge sd", "flips", "swap flips", "agreement", "votes")
    table = table_titled("agreement of several opinions", "criterion", "model", right=headings)
    for row in summary.noise:
        deviations = (sqrt_words(row["output_variance"]), sqrt_words(row["judge_variance"]))
        rates = (rate_words(row[name]) for name in ("flip_rate", "swap_flip_rate", "agreement_rate"))
        votes = "–" if row["effective_votes"] is None else f"{row['effective_votes']:.1f}"
        counts = (f"{row['n']:,}", f"{row['opinion_count']:,}")
        table.add_row(escape(plain(row["criterion_id"])), escape(_model(row)), *counts, *deviations, *rates, votes)
    return table


def _show_calibration(summary: RunSummary) -> None:
    """Print the corrected means and their notes."""
    if summary.calibration:
        headings = ("rated", "of", "judge alone", "corrected", "95% interval")
        table = table_titled("means corrected by people's ratings", "criterion", "model", right=headings)
        for row in summary.calibration:
            means = (score_words(row["naive_mean"]), score_words(row["corrected_mean"]))
            counts = (f"{row['n']:,}", f"{row['output_count']:,}")
            interval = interval_words(row["ci_low"], row["ci_high"])
            table.add_row(escape(plain(row["criterion_id"])), escape(_model(row)), *counts, *means, interval)
        people.print(table)
    notes = ((f"{row['criterion_id']} of {_model(row)}", row["note"]) for row in summary.calibration if row["note"])
    for words in each_once(notes):
        people.print(f"[yellow]note:[/] {escape(plain(words))}")
    if summary.calibration_fault:
        people.print(f"[yellow]note:[/] no corrected means: {escape(plain(summary.calibration_fault))}")
    if summary.offered:
        people.print(f"[yellow]note:[/] {escape(plain(summary.offered))}")


def _time_words(summary: RunSummary) -> str:
    """Time by stage, the longest first, and where the rest of the costs is."""
    by_stage: dict[str, float] = {}
    for row in summary.costs:
        by_stage[row["stage"]] = by_stage.get(row["stage"], 0.0) + row["wall_s"]
    longest = sorted(by_stage.items(), key=lambda stage: -stage[1])
    cpu_s = sum(row["cpu_s"] for row in summary.costs)
    named = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in longest[:MOST_STAGES])
    return f"Time: {named or 'unknown'}; {cpu_s:.1f} s CPU so far. The table stage_costs has each stage and criterion."


def _model(row: dict[str, Any]) -> str:
    return plain(model_name(row))


def _mean_and_coverage(row: dict[str, Any] | None) -> str:
    if row is None:
        return "–"
    coverage = "" if row["coverage_rate"] == 1 else f" ({rate_words(row['coverage_rate'])})"
    return f"{score_words(row['mean'])}{coverage}"
