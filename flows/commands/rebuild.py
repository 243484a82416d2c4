"""The commands `gradebook rebuild` and `gradebook rescore`: what a published run's verdicts come to, once more."""

from pathlib import Path
from typing import Annotated

import typer

from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    DONE,
    NOT_MET,
    DataOption,
    ForceOption,
    JsonOption,
    LakeOption,
    print_json,
)
from gradebook.rubrics.model.errors import InputError


def rebuild(
    run: Annotated[str, typer.Argument(help="a run's id")],
    check: Annotated[bool, typer.Option("--check", help="hold them against the published ones, to the bit")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="write a Parquet file each into this folder; at least one of the two")
    ] = None,
    is_forced: ForceOption = False,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Build a published run's tables of scores again, from its verdicts and what else the lake keeps of it.

    Nothing published is ever changed. Ratings count as they were when the run was published.

    \b
    gradebook rebuild 20261101-020000-a1b2c3 --check
    gradebook rebuild nightly-1 --check --json
    gradebook rebuild nightly-1 --out rebuilt

    Exit: 0 done, and with --check all are equal, 1 one of them is not, 2 bad input.
    """
    from gradebook.tasks.lake.address import find_lake
    from gradebook.tasks.stages.rebuild import rebuild_run

    if out is not None and not str(out).strip("."):
        raise InputError("--out: found no folder's name, expected one for the files of the marts")
    if not check and out is None:
        raise InputError("rebuild: found neither --check nor --out, expected one of them, or both")
    rebuilt = rebuild_run(find_lake(lake, data), run, out=out, is_forced=is_forced, is_checked=check)
    if as_json:
        print_json(rebuilt.as_json())
    else:
        from gradebook.flows.display.rebuild import show_rebuilt

        show_rebuilt(rebuilt)
    raise typer.Exit(DONE if rebuilt.is_equal else NOT_MET)


def rescore(
    run: Annotated[str, typer.Argument(help="the id of the run whose verdicts are taken over")],
    rubric: Annotated[
        str, typer.Option("--rubric", help="a rubric file, a shipped rubric's name, or ID@VERSION of the lake")
    ],
    run_id: Annotated[
        str | None, typer.Option("--run-id", help="name the new run; default: a time and a number")
    ] = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish a new run of a published run's verdicts, with the weights, gates and thresholds of another rubric.

    No judge is asked, no check is run, and it costs nothing. The criteria of the rubric have to be among the run's,
    with the same description, levels and method; what it leaves out is left out. The same command again goes on where
    it was interrupted.

    \b
    gradebook rescore 20261101-020000-a1b2c3 --rubric heavier.yaml
    gradebook rescore nightly-1 --rubric support_reply@1.1.0 --run-id nightly-1-new-weights --json

    Exit: 0 done, 1 a gate or threshold is not met, 2 bad input.
    """
    from gradebook.tasks.stages.rescore import RescoreRequest, rescore_run

    summary, report = rescore_run(RescoreRequest(run, rubric, lake, data, run_id))
    if as_json:
        print_json(summary.as_json() | {"report": str(report)})
    else:
        from gradebook.flows.display.summary import show_summary

        show_summary(summary, str(report))
    raise typer.Exit(DONE if summary.is_met else NOT_MET)
