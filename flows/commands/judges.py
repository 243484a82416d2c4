"""The commands `gradebook judges ...`: choose a judge."""

import os
from typing import Annotated, Any

import typer

from gradebook.flows.commands.completion import complete_run
from gradebook.flows.commands.options import DEFAULT_LAKE, DataOption, JsonOption, LakeOption, print_json
from gradebook.flows.display.agreement import show_judge_choices
from gradebook.flows.display.terminal import plain, say, show_rows
from gradebook.tasks.agreement.compare_judges import compare_judges
from gradebook.tasks.judging.settings.judge import ADDRESS_VARIABLE
from gradebook.tasks.judging.settings.providers import list_providers
from gradebook.tasks.lake.address import find_lake

app = typer.Typer(help="List and compare judges.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def judges() -> None:
    """List and compare judges."""


@app.command(name="list")
def list_known(as_json: JsonOption = False) -> None:
    """List the providers whose models are judges by name, and which of their keys are there.

    A model of a provider is named by itself or as PROVIDER/MODEL. No key is shown, and nothing is asked. Providers of
    your own are sections [providers.NAME] of ~/.config/gradebook/settings.toml.

    \b
    gradebook judges list
    gradebook judges list --json
    """
    providers = list_providers(os.environ)
    address = os.environ.get(ADDRESS_VARIABLE)
    if as_json:
        print_json({"providers": providers, "address": address})
        return
    show_rows(("provider", "models", "key", "address", "as of"), map(_provider_cells, providers))
    if address:
        say(f"{ADDRESS_VARIABLE} is set: all names but those of your own providers go to {plain(address)}")


def _provider_cells(provider: dict[str, Any]) -> tuple[object, ...]:
    place = (provider["key"] or "none needed").removeprefix("env:")
    state = {True: "set", False: "not set", None: ""}[provider["has_key"]]
    lacking = "".join(f", {name} not set" for name in provider["missing"])
    names = ", ".join(provider["names"])
    as_of = "your settings" if provider["is_own"] else provider["checked"] or ""
    return provider["provider"], names, f"{place} {state}".strip() + lacking, provider["base_url"], as_of


@app.command()
def compare(
    runs: Annotated[
        list[str],
        typer.Argument(help="ids of runs over the same outputs, each by another judge", autocompletion=complete_run),
    ],
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare judges by how they order models and outputs, with their prices.

    Compared are the outputs that people rated and every judge scored. A difference up to the tie margin is a tie; the
    margin is fitted on one half of the cases and used on the other.

    \b
    gradebook judges compare nightly-large nightly-small
    gradebook judges compare nightly-large nightly-small --json
    """
    found = compare_judges(find_lake(lake, data), runs)
    if as_json:
        print_json(found.as_json())
    else:
        show_judge_choices(found)
