"""Tables of a published run and of a plan, on stdout."""

from collections.abc import Sequence
from operator import itemgetter

from rich.markup import escape

from gradebook.flows.display.comparison import show_run_comparison, show_verdict
from gradebook.flows.display.terminal import plain, show, stdout
from gradebook.rubrics.statistics.release import Ship
from gradebook.rubrics.text.tables import Cells, Column, Table, in_lower_case, pick_columns, table_from
from gradebook.rubrics.text.wording import counted, interval_words, price_words, score_words, with_interval
from gradebook.tasks.agreement.audited_scores import audited_sentence
from gradebook.tasks.comparing.sentences import merge_equal_remarks
from gradebook.tasks.comparing.verdict import MOST_REASONS, RunVerdict
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.planning.plan import CriterionPlan, RunPlan
from gradebook.tasks.published.requirements import Unmet
from gradebook.tasks.published.run_tables import (
    SCORED,
    gate_failure_words,
    mean_and_coverage,
    noise_table,
    preference_table,
    question_of,
    rows_by_criterion,
    verdict_rows,
    weight_words,
)
from gradebook.tasks.published.summary import RunSummary, cost_words

MOST_STAGES = 4


def show_summary(summary: RunSummary, report: str | None, lake_words: Sequence[str] = ()) -> None:
    """Print the verdict on a published run, then scores, criteria and costs. lake_words: options that name its lake."""
    run = summary.run
    verdict = summary.verdict
    show_verdict(verdict, lake_words)
    stdout.print(
        f"[bold]{escape(plain(run['rubric_id']))} {run['rubric_version']}[/] over {escape(plain(run['dataset']))}"
    )
    for note in run["notes"] or ():
        stdout.print(f"[yellow]note:[/] {escape(plain(note))}")
    show(_score_table(summary, verdict))
    show(_criterion_table(summary))
    for row in summary.unscored:
        if row["reason"] == "no_judge":  # a note names the criteria
            continue
        why = row["example"].removeprefix(f"{row['reason']}: ")
        words = row["reason"] if why == row["reason"] else f"{row['reason']}, such as: {why}"
        count = counted(row["verdict_count"], "verdict")
        stdout.print(f"[yellow]unscored:[/] {count}, {escape(plain(words))}")
    if summary.comparison is not None:
        show_run_comparison(summary.comparison)
    _show_opinions(summary)
    _show_calibration(summary)
    stdout.print(escape(cost_words(summary.costs)))
    stdout.print(_time_words(summary))
    for unmet in _unreported(summary, verdict):
        stdout.print(f"[red]not met by these outputs:[/] {escape(plain(unmet))}")
    for sentence in summary.waived:
        stdout.print(f"not counted by --gate {summary.run_gate}: {escape(plain(sentence))}")
    stdout.print(f"run {run['run_id']}, published as version {run['version']}", highlight=False)
    if summary.report_fault:
        fault = f"{summary.report_fault}; `gradebook report {run['run_id']}` tries again"
        stdout.print(f"[yellow]no report could be drawn:[/] {escape(plain(fault))}", soft_wrap=True)
    elif report:
        stdout.print(f"report {report}", highlight=False, soft_wrap=True)


def show_plan(plan: "RunPlan", output_count: int, budget_usd: float | None) -> None:
    """Print the requests and the cost of a run."""
    caption = f"plan over {counted(output_count, 'output')}"
    show(table_from(caption, _PLANNED_WORDS, _PLANNED, plan.criteria))
    budget = "" if budget_usd is None else f" of a budget of {price_words(budget_usd)}"
    estimated = usd_range_words(plan.cost_usd, plan.cost_low_usd, plan.cost_high_usd)
    stdout.print(f"{counted(plan.request_count, 'request')}, about {estimated}{budget}")
    if plan.at_most_count:
        stdout.print(
            f"up to {plan.at_most_count:,} of them go to the second judge, which is asked if the first is unsure; the "
            "estimate uses the share of past runs, or all of them if that share is unknown"
        )


_PLANNED_WORDS: Cells[CriterionPlan] = {"criterion": lambda row: row.criterion_id, "method": lambda row: row.method}
_PLANNED: Cells[CriterionPlan] = {
    "rows": lambda row: f"{row.row_count:,}",
    "replayed": lambda row: f"{row.replayed_count:,}",
    "to ask": lambda row: f"{row.request_count:,}",
    "estimated": lambda row: usd_range_words(row.cost_usd, row.cost_low_usd, row.cost_high_usd),
    "tokens in": lambda row: f"{row.prompt_tokens:,}",
    "tokens out": lambda row: f"{row.completion_tokens:,}",
}


def usd_range_words(cost_usd: float | None, low_usd: float | None, high_usd: float | None) -> str:
    """Dollars and their range: $1.20 ($0.950 to $1.60)."""
    if cost_usd is None or low_usd is None or high_usd is None or low_usd == high_usd:
        return price_words(cost_usd)
    return with_interval(cost_usd, low_usd, high_usd, price_words)


def _unreported(summary: RunSummary, verdict: RunVerdict) -> list[Unmet]:
    """Requirements that are not met, without those of models whose reasons the verdict has in full."""
    explained = {
        model_verdict.model
        for model_verdict in verdict.models
        if model_verdict.outcome is Ship.MAY_NOT and len(model_verdict.reasons) <= MOST_REASONS
    }
    return [unmet for unmet in summary.unmet if unmet.model is None or unmet.model not in explained]


def _score_table(summary: RunSummary, verdict: RunVerdict) -> Table:
    headings = ("mean", "95% interval", "pass", "gate fails", "coverage", "outputs", "billed")
    cells = pick_columns(SCORED, *headings)
    if any(row["is_gate"] for row in summary.criteria):
        cells["gate fails"] = gate_failure_words  # unknown, if no output has a known gate
    words: Cells[Row] = {"model": model_name, **{name: SCORED[name] for name in ("verdict", "lowest criterion")}}
    return table_from("scores by model", words, cells, verdict_rows(verdict))


def _criterion_table(summary: RunSummary) -> Table:
    """Table of means by criterion and model; the questions, which are long, are on the right."""
    models = {(row["model"], row["checkpoint"]): model_name(row) for row in summary.criteria}
    by_criterion = rows_by_criterion(summary.criteria)
    has_questions = any(map(question_of, by_criterion.values()))
    columns = (
        Column("criterion"),
        *(Column(heading, is_number=True) for heading in ("weight", *models.values())),
        *([Column("question")] if has_questions else []),
    )
    rows = tuple(
        (
            criterion_id,
            weight_words(by_model),
            *(mean_and_coverage(by_model.get(model)) for model in models),
            *([question_of(by_model)] if has_questions else []),
        )
        for criterion_id, by_model in by_criterion.items()
    )
    return Table("mean (coverage) by criterion", columns, rows)


def _show_opinions(summary: RunSummary) -> None:
    """Print the judge's preferences, and its agreement with itself and others, where there are some."""
    for rows, table_with in ((summary.preferences, preference_table), (summary.noise, noise_table)):
        if rows:
            show(in_lower_case(table_with(rows)))


_CORRECTED: Cells[Row] = {
    "rated": lambda row: f"{row['n']:,}",
    "of": lambda row: f"{row['output_count']:,}",
    "judge alone": lambda row: score_words(row["naive_mean"]),
    "corrected": lambda row: score_words(row["corrected_mean"]),
    "95% interval": lambda row: interval_words(row["ci_low"], row["ci_high"]),
}


def _show_calibration(summary: RunSummary) -> None:
    """Print the corrected means and their notes."""
    if summary.calibration:
        names: Cells[Row] = {"criterion": itemgetter("criterion_id"), "model": model_name}
        show(table_from("means corrected by people's ratings", names, _CORRECTED, summary.calibration))
    notes = ((f"{row['criterion_id']} of {model_name(row)}", row["note"]) for row in summary.calibration if row["note"])
    for note in merge_equal_remarks(notes):
        stdout.print(f"[yellow]note:[/] {escape(plain(note))}")
    if summary.calibration_fault:
        stdout.print(f"[yellow]note:[/] no corrected means: {escape(plain(summary.calibration_fault))}")
    for row in summary.audited:
        if row["criterion_id"] is None:
            stdout.print(f"[yellow]note:[/] {escape(plain(audited_sentence(row)))}")
    if summary.offered:
        stdout.print(f"[yellow]note:[/] {escape(plain(summary.offered))}")


def _time_words(summary: RunSummary) -> str:
    """Time by stage, the longest first, and where the rest of the costs is."""
    by_stage: dict[str, float] = {}
    for row in summary.costs:
        by_stage[row["stage"]] = by_stage.get(row["stage"], 0.0) + row["wall_s"]
    longest = sorted(by_stage.items(), key=lambda stage: -stage[1])
    cpu_s = sum(row["cpu_s"] for row in summary.costs)
    stages = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in longest[:MOST_STAGES])
    return f"Time: {stages or 'unknown'}; {cpu_s:.1f} s CPU so far. The table stage_costs has each stage and criterion."
