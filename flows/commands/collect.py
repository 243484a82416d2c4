"""The command `gradebook collect`: outputs from the endpoint that serves a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradebook.flows.commands.options import JsonOption, MapOption, print_json

if TYPE_CHECKING:
    from gradebook.tasks.collecting.collect import Collected


def collect(  # noqa: PLR0913 - each is an option
    prompts: Annotated[
        str, typer.Argument(help="cases with prompts: JSON Lines, CSV or Parquet; a file, folder or glob")
    ],
    endpoint: Annotated[str, typer.Option("--endpoint", help="a model's name, or an endpoint file")],
    out: Annotated[Path, typer.Option("--out", help="the outputs: a .jsonl file, plain, .gz or .zst")],
    model: Annotated[
        str | None, typer.Option("--model", help="the outputs' model; default: as the endpoint has it")
    ] = None,
    checkpoint: Annotated[str | None, typer.Option("--checkpoint", help="the training step or tag served now")] = None,
    samples: Annotated[int, typer.Option("--samples", help="outputs of each case")] = 1,
    budget_usd: Annotated[float | None, typer.Option("--budget-usd", help="dollars that are never passed")] = None,
    max_in_flight: Annotated[int | None, typer.Option("--max-in-flight", help="requests out at once at most")] = None,
    max_unanswered_rate: Annotated[
        float, typer.Option("--max-unanswered-rate", help="share of outputs that may be missing")
    ] = 0.0,
    column_map: MapOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask a model for the outputs that are to be evaluated.

    The same command again goes on where it stopped; what was answered once is not asked again.

    \b
    gradebook collect prompts.jsonl --endpoint my-model --out outputs.jsonl
    gradebook collect prompts.jsonl --endpoint endpoint.yaml --model my-model --checkpoint 12000 --out 12000.jsonl
    gradebook collect "suite/*.csv" --endpoint gpt-4o-mini --samples 4 --budget-usd 5 --out outputs.jsonl

    Exit: 0 done, 2 bad input, 3 not finished.
    """
    from gradebook.flows.display.progress_bars import shown_progress
    from gradebook.tasks.collecting.collect import CollectRequest, collect_outputs
    from gradebook.tasks.runs.request import read_column_map

    mapped = read_column_map(column_map or [])
    request = CollectRequest(
        prompts, endpoint, out, model, checkpoint, samples, budget_usd, max_in_flight, max_unanswered_rate, mapped
    )
    with shown_progress():
        collected = collect_outputs(request)
    _tell(collected, as_json=as_json)


def _tell(collected: "Collected", *, as_json: bool) -> None:
    from dataclasses import asdict

    from gradebook.flows.display.terminal import people, plain
    from gradebook.tasks.system.number_format import usd_words

    if as_json:
        print_json(asdict(collected))
        return
    endings = ", ".join(f"{plain(ending)} {count:,}" for ending, count in sorted(collected.endings.items()))
    lines = [
        f"{collected.output_count:,} outputs of {collected.case_count:,} cases in {plain(collected.out)}",
        f"ended with: {endings}; {collected.refusal_count:,} refusals",
        f"{collected.request_count:,} requests, billed {usd_words(collected.cost_usd)}",
        f"{collected.kept_count:,} outputs were there before",
    ]
    if collected.unanswered_count:
        lines.append(f"{collected.unanswered_count:,} without an output")
    for line in lines:
        people.print(line, markup=False, soft_wrap=True)
