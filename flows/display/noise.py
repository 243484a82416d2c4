"""Tables of a judge's noise and of the false alarms of gates, on stdout."""

from collections.abc import Iterable, Iterator

from rich.markup import escape
from rich.table import Table

from gradebook.flows.display.terminal import people, plain, table_titled
from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.statistics.rule_false_alarms import Nominal
from gradebook.rubrics.statistics.rules import OVERALL
from gradebook.tasks.comparing.aa_test import Fires, JudgedTwice, JudgeNoise, RuleNoise
from gradebook.tasks.comparing.decision_study import DecisionStudy
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.system.number_format import (
    difference_interval_words,
    interval_words,
    p_words,
    price_words,
    rate_words,
    score_words,
    signed_words,
    sqrt_words,
)


def show_noise(found: JudgeNoise) -> None:
    """Print the run, each criterion's noise, the comparison of two replicates, and the firing rate of each rule."""
    run, replicates = found.run, found.replicates
    head = f"{run['run_id']}  {run['rubric_id']} {run['rubric_version']}"
    people.print(f"[bold]{escape(plain(head))}[/]", highlight=False)
    people.print(_reply_table(found.noise))
    for model in found.models:
        people.print(_twice_table(model))
        if model.usual_diff is not None:
            words = f"19 of 20 draws differ by at most {model.usual_diff:.4f} overall, on the judge's noise alone."
            people.print(escape(plain(f"{model.model}: {words}")))
    people.print(_rule_table(found))
    if found.study.options:
        people.print(_component_table(found.study))
        people.print(_option_table(found.study))
    for sentence in _notes(found):
        people.print(escape(plain(sentence)))
    if found.note is not None:
        people.print(f"note: {found.note}")
    if replicates.left_out_count:
        words = counted(replicates.left_out_count, "output")
        people.print(f"[yellow]left out:[/] {words} with fewer than {replicates.replicate_count} replies")


def _reply_table(noise: Iterable[Row]) -> Table:
    headings = ("outputs", "other level", "sd of replies", "sd of outputs")
    table = table_titled("two replies on one output: how often they give different levels", "criterion", "model")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in noise:
        deviations = (sqrt_words(row["judge_variance"]), sqrt_words(row["output_variance"]))
        cells = (f"{row['n']:,}", rate_words(row["flip_rate"]), *deviations)
        table.add_row(escape(plain(row["criterion_id"])), escape(plain(model_name(row))), *cells)
    return table


def _twice_table(model: JudgedTwice) -> Table:
    table = table_titled(
        escape(plain(f"{model.model}: the same outputs judged twice, replicate 0 as A and 1 as B")), "criterion"
    )
    headings = ("A", "B", "B - A", "95% interval", "p (t)", "p adjusted", "better", "worse", "tied", "pairs")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in model.rows:
        found = row.figures
        counts = (found.better_count, found.worse_count, found.tied_count, found.n)
        table.add_row(
            escape(plain(row.name)),
            score_words(found.mean_a),
            score_words(found.mean_b),
            signed_words(found.mean_diff),
            difference_interval_words(found.diff_low, found.diff_high),
            p_words(found.p),
            p_words(found.p_adjusted),
            *(f"{count:,}" for count in counts),
        )
    return table


def _component_table(study: DecisionStudy) -> Table:
    names = dict.fromkeys(name for each in study.components for name in each.variances)
    table = table_titled("standard deviation by source", "scores", right=(*names, "n"))
    for each in study.components:
        row = {OVERALL: "overall"}.get(each.scope, each.scope_id) + (" (people)" if each.kind == "rater" else "")
        known = (each.variances.get(name) for name in names)
        deviations = ("–" if value is None else sqrt_words(value) for value in known)
        table.add_row(escape(plain(f"{each.model}: {row}")), *deviations, f"{each.n:,}")
    return table


def _option_table(study: DecisionStudy) -> Table:
    table = table_titled("what more would gain", "more", right=("cases", "samples", "replicates", "error", "price"))
    for each in study.options:
        counts = (f"{count:,.4g}" for count in (each.case_count, each.sample_count, each.replicate_count))
        name = f"{each.model}: {'this run' if each.more is None else f'{each.more} more'}"
        price = "–" if each.cost_usd is None else price_words(each.cost_usd)
        table.add_row(escape(plain(name)), *counts, f"{each.standard_error:.4f}", price)
    return table


def _rule_table(found: JudgeNoise) -> Table:
    draw_count = found.rules[0].gate.draw_count
    table = table_titled(f"false alarms of a gate: {counted(draw_count, 'draw')}", "required")
    for heading in ("model", "fired", "of all", "95% interval", "nominal"):
        table.add_column(heading, justify="right", no_wrap=True)
    for rule in found.rules:
        of_models = rule.models if len(rule.models) > 1 else ()
        name = "any model" if of_models else rule.models[0][0]
        table.add_row(
            escape(plain(rule.rule.required)),
            escape(plain(name)),
            *_fire_words(rule.gate),
            _nominal_words(rule.nominal),
        )
        for model, fires in of_models:
            table.add_row("", escape(plain(model)), *_fire_words(fires), "")
    return table


def _fire_words(fires: Fires) -> tuple[str, str, str]:
    interval = fires.interval
    return (
        f"{fires.fired_count:,}",
        rate_words(fires.rate),
        interval_words(interval.low, interval.high, rate_words),
    )


def _nominal_words(nominal: Nominal | None) -> str:
    if nominal is None:
        return "–"
    return rate_words(nominal.rate) + (f" a {nominal.each}" if nominal.each else "")


def _notes(found: JudgeNoise) -> Iterator[str]:
    """Remarks on the table of rules."""
    for rule in found.rules:
        if rule.gate.unknown_count:
            yield _unknown_words(rule)
        if rule.series is not None:
            yield (
                f"{rule.rule.required}: {rate_words(rule.series.rate)} of series of {rule.series.looks} looks have a "
                f"false alarm; without the series' levels {rate_words(rule.series.plain_rate)}."
            )
    if any(rule.nominal for rule in found.rules):
        yield "Nominal: the rule's bound on p, halved if the rule tests one direction."


def _unknown_words(rule: RuleNoise) -> str:
    draws = counted(rule.gate.unknown_count, "draw")
    return f"{rule.rule.required}: in {draws} the rule could not be evaluated; a gate fails then."
