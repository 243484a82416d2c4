"""The commands `gradebook judge ...`: choose a judge, and improve its questions."""

import os
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gradebook.flows.commands.options import DEFAULT_LAKE, DataOption, JsonOption, LakeOption, complete_run, print_json
from gradebook.flows.display.agreement import show_cascade_choice, show_judge_choices, show_recalibration
from gradebook.flows.display.learning import show_frontier, show_improvement, show_preview
from gradebook.flows.display.progress_bars import shown_activity
from gradebook.flows.display.terminal import plain, say, show_rows
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.agreement.compare_judges import compare_judges
from gradebook.tasks.agreement.recalibrate import recalibrate_run
from gradebook.tasks.comparing.cascade_choice import calibrate_cascade
from gradebook.tasks.judging.settings.files import read_judge
from gradebook.tasks.judging.settings.model import ADDRESS_VARIABLE
from gradebook.tasks.judging.settings.providers import list_providers
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.learning.compare import MARGIN, FrontierRequest, compare_candidates
from gradebook.tasks.learning.improve import ImproveRequest, open_improvement, refuse_rubric_file, write_improved
from gradebook.tasks.operations.doctor.judge import judge_file_text, refuse_judge_file
from gradebook.tasks.system.files import write_text


class Of(StrEnum):
    """Verdicts whose loss `gradebook judge calibrate` bounds."""

    verdicts = "verdicts"
    gates = "gates"


def list_known(as_json: JsonOption = False) -> None:
    """List the providers whose models are judges by name, and which of their keys are there.

    A model of a provider is named by itself or as PROVIDER/MODEL. No key is shown, and nothing is asked. Providers of
    your own are sections [providers.NAME] of ~/.config/gradebook/settings.toml.

    \b
    gradebook judge list
    gradebook judge list --json
    """
    providers = list_providers(os.environ)
    address = os.environ.get(ADDRESS_VARIABLE)
    if as_json:
        print_json({"providers": providers, "address": address})
        return
    show_rows(("provider", "models", "key", "address", "as of"), map(_provider_cells, providers), is_narrow=True)
    if address:
        say(f"{ADDRESS_VARIABLE} is set: all names but those of your own providers go to {plain(address)}")


def _provider_cells(provider: dict[str, Any]) -> tuple[object, ...]:
    key = (provider["key"] or "none needed").removeprefix("env:")
    state = {True: "set", False: "not set", None: ""}[provider["has_key"]]
    lacking = "".join(f", {name} not set" for name in provider["missing"])
    names = ", ".join(provider["names"])
    as_of = "your settings" if provider["is_own"] else provider["checked"] or ""
    return provider["provider"], names, f"{key} {state}".strip() + lacking, provider["base_url"], as_of


def compare(  # noqa: PLR0913 - each is an option
    runs: Annotated[
        list[str],
        typer.Argument(help="ids of runs over the same outputs, each by another judge", autocompletion=complete_run),
    ],
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
    rubric: Annotated[
        list[str] | None,
        typer.Option("--rubric", help="a rubric to ask about the first run's rated outputs; may be repeated"),
    ] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option("--judge", help="a judge to ask, also a panel or a cascade; may be repeated; default: the run's"),
    ] = None,
    criterion: Annotated[str | None, typer.Option("--criterion", help="one criterion; default: all")] = None,
    margin: Annotated[
        float, typer.Option("--margin", help="kappa that the cheapest may lose against the best")
    ] = MARGIN,
    budget_usd: Annotated[
        float | None, typer.Option("--budget-usd", help="maximum spend on new replies, in US dollars")
    ] = None,
) -> None:
    """Compare judges by how they order models and outputs, with their prices.

    Compared are the outputs that people rated and every judge scored. A difference up to the tie margin is a tie; the
    margin is fitted on one half of the cases and used on the other. Then each candidate's agreement with people against
    its price, and the cheapest that is not worse than the best by --margin. Candidates are the runs, and with --rubric
    or --judge also each rubric by each judge, asked about the first run's rated outputs.

    \b
    gradebook judge compare nightly-large nightly-small
    gradebook judge compare nightly-large nightly-small --json
    gradebook judge compare nightly-1 --rubric tone-1.0.1.yaml --budget-usd 1
    gradebook judge compare nightly-1 --judge small.yaml --judge panel.yaml
    """
    found_lake = find_lake(lake, data)
    request = FrontierRequest(tuple(runs), tuple(rubric or ()), tuple(judge or ()), criterion, margin, budget_usd)
    is_asked = bool(rubric or judge)
    comparison = None if is_asked and len(set(runs)) == 1 else compare_judges(found_lake, runs)
    with shown_activity("asking candidates"):
        frontier = compare_candidates(found_lake, request)
    if as_json:
        print_json((comparison.as_json() if comparison else {}) | {"frontier": frontier.as_json()})
        return
    if comparison is not None:
        show_judge_choices(comparison)
    show_frontier(frontier)


def improve(  # noqa: PLR0913 - each is an option
    run: Annotated[str, typer.Argument(help="id of a run whose outputs people rated", autocompletion=complete_run)],
    criterion: Annotated[
        str | None, typer.Option("--criterion", help="one criterion; default: each with enough ratings")
    ] = None,
    judge: Annotated[
        str | None, typer.Option("--judge", help="the run's judge, as --judge of an evaluation; default: by its name")
    ] = None,
    proposer: Annotated[
        str | None, typer.Option("--proposer", help="model that writes guidance; default: the judge")
    ] = None,
    budget_usd: Annotated[float | None, typer.Option("--budget-usd", help="maximum spend in US dollars")] = None,
    is_dry_run: Annotated[bool, typer.Option("--dry-run", help="show power and price, and ask nothing")] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="rubric file to write; default: ID-VERSION.yaml"),
    ] = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search better guidance and examples for a judge in people's ratings of a run.

    A model proposes guidance from disagreements; examples are chosen from ratings. Both are searched in one half of the
    cases and measured in the other, and the other way round, with at most three judgments for each rated output. A new
    version is written only if agreement beyond chance rises on cases that the search has not seen, and no model's bias
    grows. It is registered by `gradebook rubric register`, never by itself. Replies are in the ledger: the same command
    again asks only what is new.

    \b
    gradebook judge improve nightly-1 --dry-run
    gradebook judge improve nightly-1 --criterion tone --budget-usd 2
    gradebook judge improve nightly-1 --judge small.yaml --proposer large.yaml \\
        --out tone-1.0.1.yaml

    Exit: 0 done, also where nothing better was found, 2 bad input, 3 not finished.
    """
    found_lake = find_lake(lake, data)
    if out is not None:
        refuse_rubric_file(out)
    request = ImproveRequest(run, criterion, judge, proposer, budget_usd)
    improvement_run = open_improvement(found_lake, request)
    if not as_json:
        show_preview(improvement_run.previews, improvement_run.skipped)
    if is_dry_run:
        if as_json:
            print_json(
                {
                    "preview": [asdict(preview) for preview in improvement_run.previews],
                    "skipped": improvement_run.skipped,
                }
            )
        return
    with shown_activity("searching"):
        improvement = improvement_run.search()
    path = write_improved(improvement, out)
    if as_json:
        print_json(improvement.as_json() | {"file": None if path is None else str(path)})
    else:
        show_improvement(improvement, path)


def calibrate(  # noqa: PLR0913 - each is an option
    runs: Annotated[
        list[str],
        typer.Argument(
            help="ids of one run by each judge, the cheap one first; or of one run: of a panel of both, of a cascade "
            "with an audit, or of a judge whose outputs people rated",
            autocompletion=complete_run,
        ),
    ],
    loss: Annotated[
        float, typer.Option("--loss", help="share of verdicts that may differ from always asking the second judge")
    ] = 0.02,
    confidence: Annotated[float, typer.Option("--confidence", help="with which the loss is at most this")] = 0.95,
    of: Annotated[Of, typer.Option("--of", help="what the loss is a share of: verdicts, or gates")] = Of.verdicts,
    write: Annotated[Path | None, typer.Option("--write", help="judge file of the cascade to write")] = None,
    first: Annotated[
        str | None, typer.Option("--first", help="with --write: how the file names the first judge; default: its model")
    ] = None,
    then: Annotated[str | None, typer.Option("--then", help="with --write: likewise the second judge")] = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Choose when a cascade asks its second judge, from stored verdicts of both.

    Half of the cases choose the rule that asks least within the loss; the other half shows what it and other rules
    lose and cost. Nothing is asked.

    \b
    gradebook judge calibrate nightly-small nightly-large --loss 0.02
    gradebook judge calibrate nightly-small nightly-large --write cascade.yaml
    gradebook judge calibrate nightly-small --of gates
    """
    if write is not None:
        refuse_judge_file(write)
    choice = calibrate_cascade(find_lake(lake, data), runs, loss=loss, confidence=confidence, of=of.value)
    text = None if write is None else choice.file_text(first, then)
    if as_json:
        print_json(choice.as_json())
    else:
        show_cascade_choice(choice)
    if write is not None and text is not None:
        write_text(write, text)


def recalibrate(
    run: Annotated[str, typer.Argument(help="id of a run whose outputs people rated", autocompletion=complete_run)],
    judge: Annotated[
        str | None, typer.Option("--judge", help="with --write: the run's judge, as --judge of an evaluation")
    ] = None,
    write: Annotated[
        Path | None, typer.Option("--write", help="judge file to write: that of --judge with the temperatures")
    ] = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fit a judge's probabilities to people's ratings, criterion by criterion.

    A criterion with 100 rated outputs gets a temperature, measured on cases that did not fit it. One that does not help
    there beyond chance is left as it is. Levels stay; expected scores change, and nothing is asked again.

    \b
    gradebook judge recalibrate nightly-small
    gradebook judge recalibrate nightly-small --judge jev.yaml --write new.yaml
    """
    if write is not None:
        refuse_judge_file(write)
    recalibration = recalibrate_run(find_lake(lake, data), run)
    if as_json:
        print_json(recalibration.as_json())
    else:
        show_recalibration(recalibration)
    if write is not None:
        settings = read_judge(judge, os.environ).as_model if judge is not None else None
        if settings is None:
            raise InputError("--judge", judge or "none", "the run's judge, one model")
        write_text(write, judge_file_text(recalibration.applied(settings)))
