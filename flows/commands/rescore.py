"""The command `gradebook rubric reweigh`: published verdicts under another rubric's weights."""

from dataclasses import asdict
from typing import Annotated

import typer

from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    DONE,
    NOT_MET,
    DataOption,
    JsonOption,
    LakeOption,
    PrefectOption,
    complete_rubric,
    complete_run,
    print_json,
)
from gradebook.flows.display.progress_bars import shown_activity
from gradebook.flows.display.summary import show_summary
from gradebook.flows.run import run_here
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.stages.rescore import RescoreRequest, rescore_run
from gradebook.tasks.stages.submit import StagesInThreads
from gradebook.tasks.workspace.folder import RunFolder, report_url


def rescore(
    run: Annotated[str, typer.Argument(help="id of the published run with the verdicts", autocompletion=complete_run)],
    rubric: Annotated[
        str,
        typer.Option(
            "--rubric",
            help="a rubric file, a shipped rubric's name, or ID@VERSION in the lake",
            autocompletion=complete_rubric,
        ),
    ],
    run_id: Annotated[
        str | None, typer.Option("--run-id", help="id of the new run; default: time and random suffix")
    ] = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    prefect: PrefectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish a run's verdicts again with another rubric's weights.

    Weights, gates and thresholds are those of the new rubric. No judge is asked and no check is run, so the command
    costs nothing. Each criterion of the rubric must be in the run, with the same description, levels and method;
    criteria that the rubric omits are dropped. Run the same command again to resume.

    \b
    gradebook rubric reweigh 20261101-020000-a1b2c3 --rubric heavier.yaml
    gradebook rubric reweigh nightly-1 --rubric support_reply@1.1.0 \\
        --run-id nightly-1-new-weights --json

    Exit: 0 done, 1 a gate or threshold is not met, 2 bad input.
    """
    request = RescoreRequest(run, rubric, lake, data, run_id)
    with shown_activity("scoring again"):
        summary = run_here(
            lambda: rescore_run(request, StagesInThreads())[0],
            "rescore_run:rescore_run",
            asdict(request),
            prefect=prefect,
        )
    folder = RunFolder.below(find_lake(lake, data).root, summary.run_id)
    if as_json:
        print_json(summary.as_json() | {"report": str(folder.report_file)})
    else:
        show_summary(summary, report_url(folder), find_lake(lake, data).words())
    raise typer.Exit(DONE if summary.is_met else NOT_MET)
