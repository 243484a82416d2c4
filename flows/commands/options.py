"""What the commands share: options, and how JSON is printed."""

from typing import Annotated, Any

import typer

DONE, NOT_MET, BAD_INPUT, NOT_FINISHED = 0, 1, 2, 3  # the exit codes
DEFAULT_LAKE = "sqlite:lake/catalog.sqlite"

LakeOption = Annotated[str, typer.Option("--lake", envvar="GRADEBOOK_LAKE", help="sqlite:FILE or postgres:CONNECTION")]
DataOption = Annotated[
    str | None, typer.Option("--data", help="where the Parquet files are: a folder or s3://BUCKET/PREFIX")
]
AllowFunctionsOption = Annotated[
    list[str] | None, typer.Option("--allow-functions", help="packages whose functions may run; may be repeated")
]
MapOption = Annotated[
    list[str] | None, typer.Option("--map", help="a column's name in the file, as output=response; may be repeated")
]
FeedbackOption = Annotated[
    str | None, typer.Option("--feedback", help="llm: the judge writes a text for each output and model")
]
RecordOption = Annotated[
    str | None, typer.Option("--record", help="keep the judge's replies in this file, for replay:FILE")
]
DeadlineOption = Annotated[
    str | None, typer.Option("--deadline", help="when batches are given up: a time, or a duration such as 6h")
]
AtOption = Annotated[
    str | None,
    typer.Option("--at", help="as it was then: a version, a published run's id, a time (UTC) or the end of a day"),
]
BaselineOption = Annotated[
    str | None, typer.Option("--baseline", help="compare with this run, or latest: the last one of the rubric")
]
FailIfOption = Annotated[
    str | None, typer.Option("--fail-if", help="exit with 1 where this holds: 'mean_diff < -0.01 and p < 0.05'")
]
RunnerOption = Annotated[
    str | None,
    typer.Option(
        "--runner",
        envvar="GRADEBOOK_TASK_RUNNER",
        help="where checks are computed: threads, processes, dask, dask:ADDRESS, ray or ray:ADDRESS",
    ),
]


def _choose_log(form: str | None) -> None:
    from gradebook.tasks.system.logs import choose_form

    choose_form(form)


LogOption = Annotated[
    str | None, typer.Option("--log", callback=_choose_log, help="tell on stderr what happens: json or text")
]
ForceOption = Annotated[bool, typer.Option("--force", help="replace files that are there")]
JsonOption = Annotated[bool, typer.Option("--json", help="print one JSON object on stdout and nothing else there")]


def json_text(row: dict[str, Any]) -> str:
    """One JSON object, indented, with a line break at its end."""
    import orjson

    return orjson.dumps(row, default=str, option=orjson.OPT_INDENT_2).decode() + "\n"


def print_json(row: dict[str, Any]) -> None:
    """Print one JSON object on stdout, indented."""
    typer.echo(json_text(row), nl=False)
