"""Tables of a judge's noise and of the false alarms of gates, on stdout."""

from collections.abc import Iterator

from rich.markup import escape

from gradebook.flows.display.terminal import people, plain, show
from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.statistics.rule_false_alarms import Nominal
from gradebook.rubrics.text.tables import Table, chosen, in_lower_case, table_from, table_of
from gradebook.tasks.comparing.aa_test import Fires, JudgedTwice, JudgeNoise, RuleNoise
from gradebook.tasks.comparing.tables import COMPARED, component_table, option_table
from gradebook.tasks.published.run_tables import reply_table
from gradebook.tasks.system.number_format import (
    interval_words,
    rate_words,
)


def show_noise(found: JudgeNoise) -> None:
    """Print the run, each criterion's noise, the comparison of two replicates, and the firing rate of each rule."""
    run, replicates = found.run, found.replicates
    head = f"{run['run_id']}  {run['rubric_id']} {run['rubric_version']}"
    people.print(f"[bold]{escape(plain(head))}[/]", highlight=False)
    show(in_lower_case(reply_table(found.noise)))
    for model in found.models:
        show(_twice_table(model))
        if model.usual_diff is not None:
            words = f"19 of 20 draws differ by at most {model.usual_diff:.4f} overall, on the judge's noise alone."
            people.print(escape(plain(f"{model.model}: {words}")))
    show(_rule_table(found))
    if found.study.options:
        show(in_lower_case(component_table(found.study)))
        show(in_lower_case(option_table(found.study)))
    for sentence in _notes(found):
        people.print(escape(plain(sentence)))
    if found.note is not None:
        people.print(f"note: {found.note}")
    if replicates.left_out_count:
        words = counted(replicates.left_out_count, "output")
        people.print(f"[yellow]left out:[/] {words} with fewer than {replicates.replicate_count} replies")


_TWICE = ("A", "B", "B - A", "95% interval", "p (t)", "p adjusted", "better", "worse", "tied", "pairs")


def _twice_table(model: JudgedTwice) -> Table:
    title = f"{model.model}: the same outputs judged twice, replicate 0 as A and 1 as B"
    return table_from(title, {"criterion": lambda row: row.name}, chosen(COMPARED, *_TWICE), model.rows)


def _rule_table(found: JudgeNoise) -> Table:
    caption = f"false alarms of a gate: {counted(found.rules[0].gate.draw_count, 'draw')}"
    numbers = ("model", "fired", "of all", "95% interval", "nominal")
    return table_of(caption, ("required",), numbers, (row for rule in found.rules for row in _rule_rows(rule)))


def _rule_rows(rule: RuleNoise) -> Iterator[tuple[str, ...]]:
    of_models = rule.models if len(rule.models) > 1 else ()
    name = "any model" if of_models else rule.models[0][0]
    yield rule.rule.required, name, *_fire_words(rule.gate), _nominal_words(rule.nominal)
    for model, fires in of_models:
        yield "", model, *_fire_words(fires), ""


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
