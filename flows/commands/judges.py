"""The commands `gradebook judges ...`: choose a judge."""

from typing import Annotated

import typer

from gradebook.flows.commands.completion import complete_run
from gradebook.flows.commands.options import DEFAULT_LAKE, DataOption, JsonOption, LakeOption, print_json
from gradebook.flows.display.agreement import show_judge_choices
from gradebook.tasks.agreement.compare_judges import compare_judges
from gradebook.tasks.lake.address import find_lake

app = typer.Typer(help="Choose a judge by people's ratings and by price.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def judges() -> None:
    """Choose a judge by people's ratings and by price."""


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
