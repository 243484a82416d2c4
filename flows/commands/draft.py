"""The command `gradebook rubric draft`: a rubric file from outputs, or criteria of each case."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    DONE,
    NOT_MET,
    DataOption,
    ForceOption,
    JsonOption,
    LakeOption,
    MapOption,
    option_of,
    print_json,
)
from gradebook.flows.display.progress_bars import shown_progress
from gradebook.flows.display.terminal import plain, say, show_rows, stderr
from gradebook.rubrics.learning.proposals import Dropped
from gradebook.rubrics.learning.trial import Figures
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.text.wording import counted, difference_interval_words, price_words, score_words, signed_words
from gradebook.tasks.judging.settings.files import read_judge
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.learning.asking import Forecast, Tally
from gradebook.tasks.learning.case_draft import (
    CaseDraftRequest,
    CasesDrafted,
    draft_cases,
    price_cases,
    refuse_case_file,
)
from gradebook.tasks.learning.draft import Drafted, DraftRequest, draft_rubric, price_draft
from gradebook.tasks.learning.examples import Said
from gradebook.tasks.rubric_store.files import RUBRIC_SUFFIXES, write_new
from gradebook.tasks.runs.request import read_column_map
from gradebook.tasks.system.shell import shell_line

MOST_CASE_BYTES = 1_000_000  # of a file of case ids
MOST_DROPPED = 40  # proposals that are named


@dataclass(frozen=True, slots=True)
class DraftOptions:
    """Options of the command."""

    outputs: str
    judge: str
    out: Path | None
    ratings: Path | None
    bad: str | None
    good: str | None
    notes: str | None
    is_per_case: bool
    budget_usd: float | None
    dry_run: bool
    column_map: list[str] | None
    is_forced: bool
    lake: str
    data: str | None
    as_json: bool


def draft_here(options: DraftOptions) -> int:
    """Draft as the options say; returns the exit code."""
    out = options.out or Path("drafted.jsonl" if options.is_per_case else "drafted.yaml")
    if options.is_per_case:
        refuse_case_file(out)
        said = [name for name in ("ratings", "bad", "good") if getattr(options, name) is not None]
        if said:
            raise InputError("--per-case", f"--{said[0]}", "neither --ratings, --bad nor --good: no output is read")
    elif out.suffix not in RUBRIC_SUFFIXES:
        raise InputError("--out", repr(str(out)), "a file name that ends in .yaml")
    if os.path.exists(out) and not options.is_forced and not options.dry_run:  # noqa: PTH110 - before money is spent
        raise InputError("--out", f"{out} already there", "a new file (or --force)")
    if options.budget_usd is not None and not 0 <= options.budget_usd < float("inf"):
        raise InputError("--budget-usd", f"{options.budget_usd:g}", "dollars, 0 or more")
    return _draft_cases(options, out) if options.is_per_case else _draft_rubric(options, out)


def _draft_rubric(options: DraftOptions, out: Path) -> int:
    if options.good is not None and options.bad is None:
        raise InputError("--good", "no --bad", "both, or --bad alone")
    said = Said(_cases("--bad", options.bad), _cases("--good", options.good), options.ratings)
    mapped = read_column_map(options.column_map or [])
    request = DraftRequest(options.outputs, out, said, options.notes, options.budget_usd, mapped)
    settings, lake = read_judge(options.judge, os.environ), find_lake(options.lake, options.data)
    if options.dry_run:
        _show_forecast(price_draft(request, settings, lake), as_json=options.as_json)
        return DONE
    with shown_progress():
        drafted = draft_rubric(request, settings, lake)
    if drafted.text is not None:
        write_new(out, drafted.text, is_forced=options.is_forced)
    if options.as_json:
        print_json(_as_json(drafted, out))
    else:
        _show(drafted, out, options.outputs, options.judge)
    return DONE if drafted.text is not None else NOT_MET


def _draft_cases(options: DraftOptions, out: Path) -> int:
    mapped = read_column_map(options.column_map or [])
    request = CaseDraftRequest(options.outputs, options.notes, options.budget_usd, mapped)
    settings, lake = read_judge(options.judge, os.environ), find_lake(options.lake, options.data)
    if options.dry_run:
        _show_forecast(price_cases(request, settings, lake), as_json=options.as_json)
        return DONE
    with shown_progress():
        drafted = draft_cases(request, settings, lake)
    is_any = any(drafted.counts.values())
    if is_any:
        write_new(out, drafted.lines.decode(), is_forced=options.is_forced)
    if options.as_json:
        values = {"out": str(out) if is_any else None, "criterion_counts": dict(drafted.counts)}
        print_json(values | _said(drafted) | asdict(drafted.tally))
        return DONE if is_any else NOT_MET
    say(*(f"note: {note}" for note in drafted.notes), *_dropped_lines(drafted.dropped), tally_sentence(drafted.tally))
    criteria = counted(sum(drafted.counts.values()), "criterion", "criteria")
    say(f"{criteria} of {counted(len(drafted.counts), 'case')}" + ("" if is_any else "; no file is written"))
    if is_any:
        stderr.print(f"wrote {plain(out)}; read it, then:", markup=False, soft_wrap=True)
        rows = ["evaluate", str(out), "--rubric", "none", "--judge", options.judge]
        collected = ["collect", str(out), "--endpoint", "MODEL", "--out", "outputs.jsonl"]
        show_commands(["gradebook", *command] for command in (collected, rows))
    return DONE if is_any else NOT_MET


def _cases(option: str, value: str | None) -> frozenset[str]:
    """Ids of cases: with commas between, or the lines of a file. Raises `InputError` for none."""
    if value is None:
        return frozenset()
    path = Path(value)
    text = value
    if os.path.isfile(value):  # noqa: PTH113 - Path raises where a name is too long
        if path.stat().st_size > MOST_CASE_BYTES:
            raise InputError(option, f"{path.stat().st_size:,} bytes in {value}", f"at most {MOST_CASE_BYTES:,}")
        text = path.read_text("utf-8", "replace").replace(",", "\n")
    cases = frozenset(case.strip() for case in text.replace(",", "\n").splitlines() if case.strip())
    if not cases:
        raise InputError(option, repr(value), "ids of cases")
    return cases


def _show_forecast(forecast: Forecast, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(forecast))
        return
    stored = f"; {forecast.stored_count:,} more are answered already" if forecast.stored_count else ""
    say(
        f"about {counted(forecast.question_count, 'question')}, {price_words(forecast.cost_usd)}"
        f"{f' (up to {price_words(forecast.cost_high_usd)})' if forecast.cost_high_usd else ''}{stored}",
        "the number of trial questions depends on the criteria; --budget-usd is a limit that no request passes",
    )


def _as_json(drafted: Drafted, out: Path) -> dict[str, Any]:
    return {
        "out": str(out) if drafted.text is not None else None,
        "criteria": [
            {"criterion_id": name} | (asdict(figures) if figures else {}) for name, figures in drafted.kept.items()
        ],
        **_said(drafted),
        **asdict(drafted.tally),
    }


def _said(drafted: Drafted | CasesDrafted) -> dict[str, Any]:
    return {"dropped": [asdict(one) for one in drafted.dropped], "notes": list(drafted.notes)}


def _dropped_lines(dropped: Sequence[Dropped]) -> list[str]:
    """Line for each of the first proposals that were not accepted."""
    lines = [f"dropped: {one.name}: {one.reason}" for one in dropped[:MOST_DROPPED]]
    more_count = len(dropped) - len(lines)
    return [*lines, *([f"and {more_count:,} more; --json lists all"] if more_count else [])]


def _show(drafted: Drafted, out: Path, outputs: str, judge: str) -> None:
    if drafted.kept:
        heads = ("criterion", "good", "bad", "difference", "95% interval", "same level twice")
        show_rows(heads, (_cells(name, figures) for name, figures in drafted.kept.items()))
    say(*(f"note: {note}" for note in drafted.notes))
    say(*_dropped_lines(drafted.dropped))
    say(tally_sentence(drafted.tally))
    if drafted.text is None:
        say("no criterion was accepted, and no file is written: give more outputs, or say with --notes what matters")
        return
    stderr.print(f"wrote {plain(out)}; read it, then:", markup=False, soft_wrap=True)
    commands = (["rubric", "lint", str(out)], ["evaluate", outputs, "--rubric", _path(out), "--judge", judge])
    show_commands(["gradebook", *command] for command in commands)


def show_commands(commands: Iterable[Sequence[str]]) -> None:
    """Print commands to paste, each on a line of its own."""
    for command in commands:
        stderr.print(f"  {plain(shell_line(command))}", markup=False, soft_wrap=True)


def tally_sentence(tally: Tally) -> str:
    """Sentence on what was asked and billed."""
    stored = f", {tally.stored_count:,} replies from the ledger" if tally.stored_count else ""
    return f"{counted(tally.request_count, 'request')}, billed {price_words(tally.cost_usd)}{stored}"


def _path(out: Path) -> str:
    return str(out) if "/" in str(out) else f"./{out}"


def _cells(name: str, figures: Figures | None) -> Sequence[str | None]:
    if figures is None:
        return (name, "only people can score it", None, None, None, None)
    return (
        name,
        score_words(figures.good_mean),
        score_words(figures.bad_mean),
        signed_words(figures.difference),
        difference_interval_words(figures.low, figures.high),
        f"{figures.same_count} of {figures.twice_count}" if figures.twice_count else "a check",
    )


def draft(  # noqa: PLR0913 - each is an option
    outputs: Annotated[str, typer.Argument(help="outputs as `evaluate` reads them; a file, folder or glob")],
    judge: Annotated[str, typer.Option("--judge", help="model that drafts and judges: a name or a judge file (YAML)")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="file to write; default: drafted.yaml, with --per-case drafted.jsonl"),
    ] = None,
    ratings: Annotated[
        Path | None, typer.Option("--ratings", help="ratings of people: JSON Lines or CSV, as of `evaluate`")
    ] = None,
    bad: Annotated[
        str | None, typer.Option("--bad", help="cases that failed: ids with commas between, or a file with one a line")
    ] = None,
    good: Annotated[
        str | None, typer.Option("--good", help="cases that did not fail; default: all that --bad does not name")
    ] = None,
    notes: Annotated[str | None, typer.Option("--notes", help="what you want of the outputs, in your words")] = None,
    is_per_case: Annotated[
        bool, typer.Option("--per-case", help="criteria for each case, by its prompt and reference")
    ] = False,
    budget_usd: Annotated[float | None, option_of("budget_usd")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="print the price, and stop")] = False,
    column_map: MapOption = None,
    is_forced: ForceOption = False,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draft a rubric file from outputs that failed and outputs that did not.

    A model names what the bad outputs do and the good ones do not, and groups it into criteria. Checks are run at once,
    and the rest is tried on other outputs: a criterion that does not separate good from bad, repeats another, or on
    which the judge disagrees with itself is dropped, with its figures. Which outputs are bad is read from --bad and
    --good, --ratings, or a column such as thumbs; without any, the model says it. Nothing is registered.

    With --per-case, rows of prompts or outputs get criteria of their own, 5 to 12 a case with weights. A criterion that
    repeats words of the reference is dropped.

    \b
    gradebook rubric draft outputs.jsonl --judge gpt-4o-mini --dry-run
    gradebook rubric draft outputs.jsonl --judge gpt-4o-mini \\
        --bad c7,c12,c31 --out support.yaml --budget-usd 1
    gradebook rubric draft prompts.jsonl --per-case --judge gpt-4o-mini \\
        --out cases.jsonl

    Exit: 0 written, 1 no criterion was accepted, 2 bad input, 3 not finished; the same command resumes.
    """
    options = DraftOptions(
        outputs,
        judge,
        out,
        ratings,
        bad,
        good,
        notes,
        is_per_case,
        budget_usd,
        dry_run,
        column_map,
        is_forced,
        lake,
        data,
        as_json,
    )
    raise typer.Exit(draft_here(options))
