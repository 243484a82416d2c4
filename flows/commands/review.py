"""The command `gradebook review`: one artifact judged with several rubrics."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    DONE,
    NOT_MET,
    AllowFunctionsOption,
    DataOption,
    JsonOption,
    LakeOption,
    option_of,
    print_json,
)
from gradebook.flows.display.progress_bars import shown_progress
from gradebook.flows.display.terminal import plain, stdout
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.stages.review import (
    APPROVED,
    STDIN,
    ArtifactState,
    Review,
    enter_artifact,
    review_artifact,
    rubrics_for,
)


def show_review(review: Review) -> None:
    """Print the status, then each rubric's verdict with its feedback."""
    stdout.print(f"{escape(plain(review.artifact))}: [bold]{review.status}[/]")
    for evaluation in review.evaluations:
        colour = "green" if evaluation.status == APPROVED else "red"
        stdout.print(f"\n[bold]{escape(plain(evaluation.rubric))}[/]: [{colour}]{evaluation.status}[/]")
        for line in evaluation.feedback.splitlines():
            stdout.print(f"  {escape(plain(line))}")
        for sentence in (*evaluation.unmet, *evaluation.notes):
            stdout.print(f"  [yellow]{escape(plain(sentence))}[/]")


def review(  # noqa: PLR0913 - each is an option
    artifact: Annotated[str, typer.Argument(help="a text or JSON file; - for stdin")],
    rubrics: Annotated[
        list[str] | None,
        typer.Option("--rubrics", "--rubric", help="rubric files or names, separated by commas; may be repeated"),
    ] = None,
    target_type: Annotated[
        str | None,
        typer.Option("--target-type", help="type of the artifact, for which the map names rubrics"),
    ] = None,
    review_map: Annotated[Path, typer.Option("--map", help="YAML file: the rubrics of each type of artifact")] = Path(
        "review.yaml"
    ),
    is_pending: Annotated[
        bool, typer.Option("--pending", help="enter the artifact as pending, without a review")
    ] = False,
    judge: Annotated[str | None, option_of("judge")] = None,
    budget_usd: Annotated[
        float | None, typer.Option("--budget-usd", help="maximum spend per rubric in US dollars")
    ] = None,
    allow_unscored: Annotated[bool, option_of("allow_unscored")] = False,
    feedback: Annotated[str | None, typer.Option("--feedback", help="llm: let the judge write feedback")] = None,
    allow_functions: AllowFunctionsOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Review one artifact against rubrics: approved or needs_revision.

    The reasons of needs_revision are shown. A JSON object with an `output`, or
    with chat `messages` and the answer last, is read as a row of outputs; any
    other content is the output itself.

    \b
    gradebook review reply.txt --rubrics general_answer --judge gpt-4o-mini
    gradebook review rubric.yaml --rubrics meta_rubric --judge gpt-4o-mini --json
    gradebook review reply.txt --target-type support_reply --map review.yaml
    echo '{"id": 1}' | gradebook review - --rubrics json_record

    Exit: 0 approved, 1 needs revision, 2 bad input, 3 not finished.
    """
    names = () if is_pending else _rubrics(rubrics, target_type, review_map)
    request = EvaluationRequest(
        artifact,
        names[0] if names else "",
        judge,
        lake=lake,
        data=data,
        budget_usd=budget_usd,
        allow_unscored=allow_unscored,
        feedback=feedback,
        allow_functions=tuple(allow_functions or ()),
    )
    if is_pending:
        enter_artifact(artifact, _read(artifact), request, target_type)
        pending = ArtifactState.pending.value
        if as_json:
            print_json({"artifact": artifact, "status": pending, "evaluations": []})
        else:
            typer.echo(f"{artifact}: {pending}")
        return
    content = _read(artifact)
    with shown_progress() if judge else nullcontext():  # checks alone take a second
        reviewed = review_artifact(artifact, content, names, request, target_type)
    if as_json:
        print_json(reviewed.as_json())
    else:
        show_review(reviewed)
    raise typer.Exit(DONE if reviewed.status == APPROVED else NOT_MET)


def _rubrics(listed: list[str] | None, target_type: str | None, review_map: Path) -> tuple[str, ...]:
    if not listed:
        if target_type is None:
            raise InputError("--rubrics", "none", "rubrics, or --target-type and a map of types to rubrics")
        return rubrics_for(target_type, review_map)
    names = tuple(name.strip() for name in ",".join(listed).split(",") if name.strip())
    if not names:
        raise InputError("--rubrics", repr(",".join(listed)), "at least one rubric")
    return names


def _read(artifact: str) -> bytes:
    if artifact == STDIN:
        return sys.stdin.buffer.read()
    try:
        return Path(artifact).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(artifact, f"can't be read ({reason}), expected a file of text or JSON") from None
