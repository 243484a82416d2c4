"""The command `gradebook judge noise`: test-retest noise of a judge, and the false alarms of gates."""

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.markup import escape

from gradebook.flows.commands.options import DEFAULT_LAKE, DataOption, JsonOption, LakeOption, complete_run, print_json
from gradebook.flows.display.terminal import plain, show, stdout
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.statistics.noise import Nominal
from gradebook.rubrics.statistics.series import read_series
from gradebook.rubrics.text.tables import Table, in_lower_case, pick_columns, table_from, table_of
from gradebook.rubrics.text.wording import counted, interval_words, rate_words
from gradebook.tasks.comparing.aa_test import Fires, JudgedTwice, JudgeNoise, RuleNoise, measure_noise
from gradebook.tasks.comparing.gate import GateRule
from gradebook.tasks.comparing.sentences import COMPARED, component_table, option_table
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.published.run_tables import reply_table
from gradebook.tasks.published.runs import latest_run

MOST_DRAWS = 100_000


def noise(  # noqa: PLR0913 - each is an option
    run: Annotated[
        str | None,
        typer.Argument(
            help="id of a run with a judge of `replicates: 2` or more; default: the latest published run",
            autocompletion=complete_run,
        ),
    ] = None,
    require: Annotated[
        list[str] | None, typer.Option("--require", help="a gate to test: what has to hold; may be repeated")
    ] = None,
    fail_if: Annotated[
        list[str] | None, typer.Option("--fail-if", help="a gate to test: what fails it; may be repeated")
    ] = None,
    draws: Annotated[int, typer.Option("--draws", help="number of random splits of the replies into A and B")] = 1_000,
    series: Annotated[
        str | None,
        typer.Option("--series", help="series of looks at the gate: method=lord|obf|bonferroni,alpha=0.05,looks=31"),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="random seed of the draws")] = 0,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure judge noise, and how often it alone would fire a gate.

    This is an A/A test: for each output one reply goes to A and another to B, at random, so A and B differ by noise
    alone. The share of draws in which a gate fails is its false-alarm rate. --series gives the probability of one
    false alarm or more in a series of looks.

    \b
    gradebook judge noise
    gradebook judge noise 20261101-020000-a1b2c3
    gradebook judge noise nightly-1 --require "not_worse_by(0.02)"
    gradebook judge noise nightly-1 --fail-if "mean_diff < -0.01 and p < 0.05"
    gradebook judge noise nightly-1 \\
        --fail-if "any criterion (mean_diff < 0 and p < 0.05)" --draws 5000 --json
    gradebook judge noise nightly-1 --fail-if "mean_diff < 0 and p < 0.05" \\
        --series method=bonferroni,looks=31

    Exit: 0 done, even if a gate failed, 2 bad input.
    """
    if not 1 <= draws <= MOST_DRAWS:
        raise InputError("--draws", f"{draws:,}", f"1 to {MOST_DRAWS:,}")
    if seed < 0:
        raise InputError("--seed", str(seed), "0 or more")
    try:
        planned_series = None if series is None else read_series(series)
    except ValueError:
        expected = "method=lord|obf|bonferroni, alpha=0..1 and looks=1..1000, with commas between"
        raise InputError("--series", repr(series), expected) from None
    found_lake = find_lake(lake, data)
    gates = [GateRule(rule) for rule in fail_if or ()] + [GateRule(require=rule) for rule in require or ()]
    measured = measure_noise(
        found_lake, run or latest_run(found_lake), gates, draw_count=draws, seed=seed, series=planned_series
    )
    if as_json:
        print_json(measured.as_json())
    else:
        show_noise(measured)


def show_noise(measured: JudgeNoise) -> None:
    """Print the run, each criterion's noise, the comparison of two replicates, and the firing rate of each rule."""
    run, replicates = measured.run, measured.replicates
    head = f"{run['run_id']}  {run['rubric_id']} {run['rubric_version']}"
    stdout.print(f"[bold]{escape(plain(head))}[/]", highlight=False)
    show(in_lower_case(reply_table(measured.noise)))
    for model in measured.models:
        show(_twice_table(model))
        if model.usual_diff is not None:
            words = f"19 of 20 draws differ by at most {model.usual_diff:.4f} overall, on the judge's noise alone."
            stdout.print(escape(plain(f"{model.model}: {words}")))
    show(_rule_table(measured))
    if measured.study.options:
        show(in_lower_case(component_table(measured.study)))
        show(in_lower_case(option_table(measured.study)))
    for sentence in _notes(measured):
        stdout.print(escape(plain(sentence)))
    if measured.note is not None:
        stdout.print(f"note: {measured.note}")
    if replicates.left_out_count:
        words = counted(replicates.left_out_count, "output")
        stdout.print(f"[yellow]left out:[/] {words} with fewer than {replicates.replicate_count} replies")


_TWICE = ("A", "B", "B - A", "95% interval", "p (t)", "p adjusted", "better", "worse", "tied", "pairs")


def _twice_table(model: JudgedTwice) -> Table:
    title = f"{model.model}: the same outputs judged twice, replicate 0 as A and 1 as B"
    return table_from(title, {"criterion": lambda row: row.name}, pick_columns(COMPARED, *_TWICE), model.rows)


def _rule_table(measured: JudgeNoise) -> Table:
    caption = f"false alarms of a gate: {counted(measured.rules[0].gate.draw_count, 'draw')}"
    numbers = ("model", "fired", "of all", "95% interval", "nominal")
    return table_of(caption, ("required",), numbers, (row for rule in measured.rules for row in _rule_rows(rule)))


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


def _notes(measured: JudgeNoise) -> Iterator[str]:
    """Remarks on the table of rules."""
    for rule in measured.rules:
        if rule.gate.unknown_count:
            yield _unknown_words(rule)
        if rule.series is not None:
            yield (
                f"{rule.rule.required}: {rate_words(rule.series.rate)} of series of {rule.series.looks} looks have a "
                f"false alarm; without the series' levels {rate_words(rule.series.plain_rate)}."
            )
    if any(rule.nominal for rule in measured.rules):
        yield "Nominal: the rule's bound on p, halved if the rule tests one direction."


def _unknown_words(rule: RuleNoise) -> str:
    draws = counted(rule.gate.unknown_count, "draw")
    return f"{rule.rule.required}: in {draws} the rule could not be evaluated; a gate fails then."
