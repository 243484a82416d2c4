"""The commands `gradebook train rewards`, `train best`, `people export` and `lake otlp`: files for other systems."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from gradebook.flows.commands.options import DEFAULT_LAKE, AtOption, DataOption, LakeOption, complete_run
from gradebook.flows.commands.read_lake import read_lake
from gradebook.flows.display.tables import refuse_other_form, write_row_file, write_rows
from gradebook.flows.display.terminal import stderr
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.scores import Gates
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.published.runs import is_weighted, latest_run, traced_scores
from gradebook.tasks.ratings.export_ratings import exported_ratings
from gradebook.tasks.ratings.offered import find_offered
from gradebook.tasks.rewards.export import (
    best_rows,
    curriculum_rows,
    judgment_rows,
    pair_rows,
    read_rewards,
    reward_rows,
    sft_rows,
    weak_rows,
)

RunArgument = Annotated[
    str | None, typer.Argument(help="a run's id; default: the latest published run", autocompletion=complete_run)
]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="file to write or replace, .jsonl or .parquet; default: JSON Lines on stdout"),
]
GatesOption = Annotated[
    str, typer.Option("--gates", help="effect of a failed gate: veto (the lowest score), penalty=X or ignore")
]

NOTE_ON_STRATA = "cases drawn by stratum: output_scores has their inclusion_rate, these rows have not"


class RatingShape(StrEnum):
    """Shapes of exported ratings."""

    jsonl = "jsonl"
    csv = "csv"
    potato = "potato"
    label_studio = "label-studio"
    scale = "scale"  # refused, with the command that writes it


class Shape(StrEnum):
    """Shapes of reward rows."""

    plain = "plain"
    trl = "trl"
    verl = "verl"
    openrlhf = "openrlhf"


class TraceShape(StrEnum):
    """Shapes of scores with trace ids."""

    otlp = "otlp"
    langfuse = "langfuse"
    phoenix = "phoenix"


def rewards(  # noqa: PLR0913 - each is an option
    run: RunArgument = None,
    shape: Annotated[
        Shape, typer.Option("--shape", help="columns: gradebook's own, or those of a trainer")
    ] = Shape.plain,
    gates: GatesOption = "veto",
    is_pairs: Annotated[
        bool, typer.Option("--pairs", help="pairs of outputs of a case whose rewards differ beyond the judge's noise")
    ] = False,
    margin: Annotated[
        float | None, typer.Option("--margin", help="with --pairs: least difference, in place of the noise")
    ] = None,
    is_sft: Annotated[bool, typer.Option("--sft", help="outputs that pass the rubric, for fine-tuning")] = False,
    least: Annotated[
        float | None, typer.Option("--least", help="with --sft: least reward, in place of passing")
    ] = None,
    is_curriculum: Annotated[
        bool, typer.Option("--curriculum", help="a row a case: mean, spread over its outputs, weak criteria")
    ] = False,
    is_per_criterion: Annotated[
        bool, typer.Option("--per-criterion", help="a row a judge's level with its rationale, to train a judge")
    ] = False,
    weak_count: Annotated[
        int | None,
        typer.Option(
            "--weak", min=1, help="a row a weak spot, at most this number, with examples to generate new prompts from"
        ),
    ] = None,
    out: OutOption = None,
    at: AtOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
) -> None:
    """Write a run's outputs with their rewards; a missing reward is null, never 0.

    Criteria with `reward: false` are left out of the reward. Nothing is scored again.

    \b
    gradebook train rewards nightly-2 --out rewards.parquet
    gradebook train rewards nightly-2 --shape trl --gates penalty=0.5
    gradebook train rewards nightly-2 --pairs --out pairs.jsonl
    gradebook train rewards nightly-2 --sft --least 0.9 --out sft.jsonl
    gradebook train rewards nightly-2 --curriculum
    gradebook train rewards nightly-2 --weak 20 --out weak.jsonl

    Exit: 0 done, 2 bad input.
    """
    kinds = {"--pairs": is_pairs, "--sft": is_sft, "--curriculum": is_curriculum, "--per-criterion": is_per_criterion}
    kinds |= {"--weak": weak_count is not None}
    chosen = _one_kind(kinds, shape)
    for name, value, kind in (("--margin", margin, "--pairs"), ("--least", least, "--sft")):
        _refuse_number(name, value, kind, is_chosen=kinds[kind])
    refuse_other_form(out)
    found_lake = read_lake(lake, data, at)
    run_id = run or latest_run(found_lake)
    if is_per_criterion:
        write_row_file(list(judgment_rows(found_lake, run_id)), out)
        return
    rewarded = read_rewards(found_lake, run_id, Gates.read(gates))
    readers: dict[str | None, Callable[[], Iterable[dict[str, Any]]]] = {
        "--pairs": lambda: pair_rows(rewarded, margin),
        "--sft": lambda: sft_rows(rewarded, least),
        "--curriculum": lambda: curriculum_rows(rewarded),
        "--weak": lambda: weak_rows(found_lake, rewarded, weak_count or 1),
        None: lambda: reward_rows(rewarded, shape.value),
    }
    rows = list(readers[chosen]())
    if chosen == "--curriculum":
        _note_flat(rows)
    elif chosen is None:
        _note_unscored(rows, shape)
    if is_weighted(found_lake, run_id):
        stderr.print(NOTE_ON_STRATA, markup=False)
    write_row_file(rows, out)


def _one_kind(kinds: Mapping[str, bool], shape: Shape) -> str | None:
    """Option that selects the kind of rows; None: rewards. Raises `InputError` for several."""
    chosen_kinds = [name for name, is_chosen in kinds.items() if is_chosen]
    if len(chosen_kinds) > 1:
        raise InputError(chosen_kinds[0], f"also {', '.join(chosen_kinds[1:])}", "one kind of rows")
    if chosen_kinds and shape is not Shape.plain:
        raise InputError("--shape", f"{shape.value} with {chosen_kinds[0]}", "no other kind of rows")
    return chosen_kinds[0] if chosen_kinds else None


def best(
    run: RunArgument = None,
    count: Annotated[int, typer.Option("--k", min=1, help="outputs of each case")] = 1,
    gates: GatesOption = "veto",
    out: OutOption = None,
    at: AtOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
) -> None:
    """Write the best outputs of each case by reward; outputs without a reward are left out.

    \b
    gradebook train best nightly-2 --k 1 --out best.jsonl

    Exit: 0 done, 2 bad input.
    """
    refuse_other_form(out)
    found_lake = read_lake(lake, data, at)
    write_row_file(
        list(best_rows(read_rewards(found_lake, run or latest_run(found_lake), Gates.read(gates)), count)), out
    )


def ratings(
    run: Annotated[
        str | None, typer.Argument(help="a run's id; default: all ratings of the lake", autocompletion=complete_run)
    ] = None,
    shape: Annotated[
        RatingShape, typer.Option("--format", help="a table, or the annotations of another system")
    ] = RatingShape.jsonl,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="file to write or replace, .jsonl or .csv by the format; default: stdout"),
    ] = None,
    at: AtOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
) -> None:
    """Write people's ratings, each rater's latest, as `gradebook people ratings import` reads them.

    With a run, those that count in it: of its outputs, under the texts of its criteria.
    Scale's tasks are written by `gradebook rubric export FILE --format scale --run RUN`, which has their texts.

    \b
    gradebook people export --out ratings.jsonl
    gradebook people export nightly-2 --format label-studio --out tasks.jsonl

    Exit: 0 done, 2 bad input.
    """
    if shape is RatingShape.scale:
        expected = "`gradebook rubric export FILE --format scale --run RUN`, whose FILE has the rows that Scale gave"
        raise InputError("--format", "scale, which needs the texts of Scale's tasks", expected)
    found_lake = read_lake(lake, data, at)
    rows = exported_ratings(found_lake, run, shape.value)
    suffix = ".csv" if shape is RatingShape.csv else ".jsonl"
    if out is not None and out.suffix != suffix:
        raise InputError("--out", repr(str(out)), f"a file that ends in {suffix}")
    if shape is RatingShape.csv:
        write_rows(pa.Table.from_pylist(rows), "csv", out)
    else:
        write_row_file(rows, out)
    if run is not None and (offered := find_offered(found_lake, run)):
        stderr.print(f"note: {offered}", markup=False)


def otlp(
    run: RunArgument = None,
    shape: Annotated[
        TraceShape, typer.Option("--shape", help="OpenTelemetry's log records, or bodies for another system's API")
    ] = TraceShape.otlp,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="file to write or replace, .jsonl; default: JSON Lines on stdout")
    ] = None,
    at: AtOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
) -> None:
    """Write the scores of a run of traces beside their trace and span ids, for the system that holds the traces.

    Each score is an event `gen_ai.evaluation.result`: of every criterion, and of the output as a whole under the
    rubric's name. Nothing is sent.

    \b
    gradebook lake otlp nightly-2 --out scores.jsonl
    gradebook lake otlp nightly-2 --shape langfuse

    Exit: 0 done, 2 bad input.
    """
    if out is not None and out.suffix != ".jsonl":
        raise InputError("--out", repr(str(out)), "a file that ends in .jsonl")
    found_lake = read_lake(lake, data, at)
    write_row_file(traced_scores(found_lake, run or latest_run(found_lake), shape.value), out)


def _refuse_number(name: str, value: float | None, kind: str, *, is_chosen: bool) -> None:
    if value is not None and not is_chosen:
        raise InputError(name, "a number", f"it with {kind}")
    if value is not None and not -1e6 < value < 1e6:  # also refuses NaN
        raise InputError(name, f"{value:g}", "a finite number")


def _note_unscored(rows: list[dict[str, Any]], shape: Shape) -> None:
    def value(row: dict[str, Any]) -> Any:
        return row["extra_info"]["reward"] if shape is Shape.verl else row["reward"]

    missing = sum(value(row) is None for row in rows)
    if missing:
        outputs = counted(len(rows), "output")
        stderr.print(f"{missing:,} of {outputs} without a reward, which is null", markup=False)


def _note_flat(rows: list[dict[str, Any]]) -> None:
    """Print a note on the count of cases whose outputs do not differ."""
    flags = [row["is_flat"] for row in rows if row["is_flat"] is not None]
    sentence = f"{sum(flags):,} of {counted(len(flags), 'case')} with several rewards have no spread"
    stderr.print(sentence if flags else "no case has several rewards, so no spread is known", markup=False)
