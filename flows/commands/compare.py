"""The command `gradebook compare`: two runs, or two models of one run, case by case."""

from collections.abc import Sequence
from math import isfinite
from typing import Annotated

import typer

from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    NOT_MET,
    AtOption,
    DataOption,
    FailIfOption,
    JsonOption,
    LakeOption,
    ModelsOption,
    RequireOption,
    complete_run,
    print_json,
)
from gradebook.flows.commands.read_lake import read_lake
from gradebook.flows.display.comparison import show_comparison
from gradebook.flows.display.progress_bars import shown_activity
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.comparing.compare import ComparisonOptions, compare_runs
from gradebook.tasks.comparing.gate import gate_rule
from gradebook.tasks.comparing.verdict import comparison_verdict
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.published.runs import latest_run
from gradebook.tasks.runs.request import ALL_MODELS, OPTIONS
from gradebook.tasks.system.shell import shell_line

MOST_RESAMPLES = 1_000_000


UnpairedOption = Annotated[
    bool, typer.Option("--unpaired", help="compare the means of all outputs of runs on different cases")
]
SecondOpinionOption = Annotated[
    bool,
    typer.Option("--second-opinion", help="also draw the criteria together by a hierarchical model, for few cases"),
]


def compare(  # noqa: PLR0913 - each is an option
    run_a: Annotated[
        str | None,
        typer.Argument(help="run A, the baseline; default: the latest published run", autocompletion=complete_run),
    ] = None,
    run_b: Annotated[
        str | None,
        typer.Argument(help="id of run B; without it, two models of run A are compared", autocompletion=complete_run),
    ] = None,
    model_a: Annotated[
        str | None, typer.Option("--model-a", help="model of the baseline: its name, or a part that no other has")
    ] = None,
    model_b: Annotated[str | None, typer.Option("--model-b", help="model to compare with it")] = None,
    require: RequireOption = None,
    fail_if: FailIfOption = None,
    share_at: Annotated[
        list[float] | None,
        typer.Option("--share-at", help="also show the share of scores at or below this; may be repeated"),
    ] = None,
    resamples: Annotated[
        int, typer.Option("--resamples", help="bootstrap resamples for the intervals; 0: no intervals")
    ] = 10_000,
    across_judges: Annotated[
        bool,
        typer.Option("--across-judges", help="apply the gate even if the runs had different judges"),
    ] = False,
    models: ModelsOption = "common",
    unpaired: UnpairedOption = False,
    second_opinion: SecondOpinionOption = False,
    at: AtOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two runs, or two models of one run, case by case.

    Differences are B - A. Runs on different rubric versions are compared on the criteria with the same text, under a
    banner. Rules of a gate use the names of --json: mean_diff, p, worse_rate, criterion.ID.p_adjusted,
    any criterion (mean_diff < 0 and p_adjusted < 0.05). Combine conditions with and, or, not and parentheses.

    \b
    gradebook compare 20261101-020000-a1b2c3 20261102-020000-d4e5f6
    gradebook compare nightly-1 nightly-2 --require "not_worse_by(0.02)"
    gradebook compare nightly-1 nightly-2 \\
        --fail-if "mean_diff < -0.01 and p < 0.05"
    gradebook compare nightly-1 --model-a small --model-b large --json
    gradebook compare --model-a small --model-b large
    gradebook compare nightly-1 nightly-2 --unpaired

    Exit: 0 done, 1 the gate failed or is undecidable, 2 bad input.
    """
    _refuse_bad(resamples, share_at or (), models, is_unpaired=unpaired, has_second=second_opinion)
    rule, shares = gate_rule(fail_if, require), tuple(share_at or ())
    settings = ComparisonOptions(
        (model_a, model_b),
        rule,
        resamples,
        shares,
        across_judges,
        is_unpaired=unpaired,
        has_second_opinion=second_opinion,
        needs_all_models=models == ALL_MODELS,
    )
    try:
        found_lake = read_lake(lake, data, at)
        with shown_activity("comparing"):
            comparison = compare_runs(found_lake, run_a or latest_run(found_lake), run_b, settings)
    except InputError:
        _refuse_models(find_lake(lake, data), run_a, run_b)
        raise
    if as_json:
        print_json({"verdict": comparison_verdict(comparison).as_json()} | comparison.as_json())
    else:
        show_comparison(comparison, find_lake(lake, data).words())
    if comparison.gate is not None and comparison.gate.is_failed:
        raise typer.Exit(NOT_MET)


def _refuse_bad(resamples: int, shares: Sequence[float], models: str, *, is_unpaired: bool, has_second: bool) -> None:
    if not 0 <= resamples <= MOST_RESAMPLES:
        raise InputError("--resamples", f"{resamples:,}", f"0 to {MOST_RESAMPLES:,}")
    for score in shares:
        if not isfinite(score):
            raise InputError("--share-at", f"{score:g}", "a finite number")
    if is_unpaired and shares:
        raise InputError("--unpaired", "--share-at, which compares pairs", "one of them")
    if is_unpaired and has_second:
        raise InputError("--unpaired", "--second-opinion, which compares pairs", "one of them")
    OPTIONS["models"].refuse(models)


def _refuse_models(lake: Lake, *names: str | None) -> None:
    """Raise `InputError`, with the command to use, if the names are names of models, not of runs."""
    from gradebook.tasks.lake.user_queries import run_query

    rows = run_query(lake, "select run_id, model from latest_run_scores order by run_id").to_pylist()
    runs = [{row["run_id"] for row in rows if row["model"] == name} for name in names]
    if common := set.intersection(*runs):
        model_a, model_b = str(names[0]), str(names[-1])
        command = shell_line(
            ("gradebook", "compare", max(common), "--model-a", model_a, "--model-b", model_b, *lake.words())
        )
        raise InputError("compare", f"the models {model_a} and {model_b}", f"runs; for models: `{command}`")
