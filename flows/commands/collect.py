"""The command `gradebook collect`: outputs collected from the endpoint of a model."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from gradebook.flows.commands.options import JsonOption, MapOption, PrefectOption, print_json
from gradebook.flows.display.progress_bars import shown_progress
from gradebook.flows.display.terminal import plain, stderr, stdout
from gradebook.flows.run import run_here
from gradebook.rubrics.text.wording import counted, price_words
from gradebook.tasks.collecting.collect import Collected, CollectRequest, collect_outputs
from gradebook.tasks.runs.request import read_column_map
from gradebook.tasks.system.shell import shell_line


def collect(  # noqa: PLR0913 - each is an option
    prompts: Annotated[
        str, typer.Argument(help="cases with prompts: JSON Lines, CSV or Parquet; a file, folder or glob")
    ],
    endpoint: Annotated[str, typer.Option("--endpoint", help="a model name or an endpoint file (YAML)")],
    out: Annotated[Path, typer.Option("--out", "-o", help="outputs file to write: .jsonl, .jsonl.gz or .jsonl.zst")],
    model: Annotated[
        str | None, typer.Option("--model", help="model name in the outputs; default: the endpoint's")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option("--checkpoint", help="training step or tag of the served model")
    ] = None,
    samples: Annotated[int, typer.Option("--samples", help="outputs per case")] = 1,
    budget_usd: Annotated[float | None, typer.Option("--budget-usd", help="maximum spend in US dollars")] = None,
    max_in_flight: Annotated[int | None, typer.Option("--max-in-flight", help="maximum concurrent requests")] = None,
    max_unanswered_rate: Annotated[
        float, typer.Option("--max-unanswered-rate", help="maximum share of missing outputs")
    ] = 0.0,
    column_map: MapOption = None,
    prefect: PrefectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Collect the outputs to evaluate from a model's endpoint.

    Run the same command again to resume; answered prompts are not sent again.

    \b
    gradebook collect prompts.jsonl --endpoint my-model --out outputs.jsonl
    gradebook collect prompts.jsonl --endpoint endpoint.yaml \\
        --model my-model --checkpoint 12000 --out 12000.jsonl
    gradebook collect "suite/*.csv" --endpoint gpt-4o-mini --samples 4 \\
        --budget-usd 5 --out outputs.jsonl

    Exit: 0 done, 2 bad input, 3 not finished.
    """
    mapped = read_column_map(column_map or [])
    request = CollectRequest(
        prompts, endpoint, out, model, checkpoint, samples, budget_usd, max_in_flight, max_unanswered_rate, mapped
    )
    with shown_progress():
        parameters = asdict(request) | {"out": str(out)}
        collected = run_here(
            lambda: collect_outputs(request), "collect_outputs:collect_outputs", parameters, prefect=prefect
        )
    if as_json:
        print_json(asdict(collected))
    else:
        _show_collected(collected)


def _show_collected(collected: Collected) -> None:
    endings = ", ".join(f"{plain(ending)} {count:,}" for ending, count in sorted(collected.endings.items()))
    outputs = counted(collected.output_count, "output")
    earlier = f", {collected.kept_count:,} of them there before" if collected.kept_count else ""
    lines = [
        f"{outputs} of {counted(collected.case_count, 'case')} in {plain(collected.out)}{earlier}",
        f"ended with: {endings}; {counted(collected.refusal_count, 'refusal')}",
        f"{counted(collected.request_count, 'request')}, billed {price_words(collected.cost_usd)}",
    ]
    if collected.unanswered_count:
        lines.append(f"{collected.unanswered_count:,} without an output")
    for line in lines:
        stdout.print(line, markup=False, soft_wrap=True)
    command = shell_line(("gradebook", "evaluate", collected.out))
    stderr.print(f"score them:\n  {plain(command)} --rubric RUBRIC --judge JUDGE", markup=False, soft_wrap=True)
