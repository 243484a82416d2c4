"""The command `gradebook rubric draft`: a rubric file from outputs, or criteria of each case."""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
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
from gradebook.tasks.judging.settings.judge import Judge
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.learning.asking import Forecast
from gradebook.tasks.learning.case_draft import (
    CaseDraftRequest,
    CasesDrafted,
    draft_cases,
    price_cases,
    refuse_case_file,
)
from gradebook.tasks.learning.draft import Drafted, DraftRequest, draft_rubric, price_draft
from gradebook.tasks.learning.examples import Said
from gradebook.tasks.rubric_store.files import RUBRIC_SUFFIXES, refuse_taken, write_new
from gradebook.tasks.runs.request import read_column_map
from gradebook.tasks.system.shell import shell_line

MOST_CASE_BYTES = 1_000_000  # size of a file of case ids
MOST_DROPPED = 40  # dropped proposals that are listed


def _refuse_options(out: Path, given: Sequence[str], budget_usd: float | None, *, is_per_case: bool) -> None:
    """Raise `InputError` for options that can't be combined. given: given options that name bad and good outputs."""
    if is_per_case:
        refuse_case_file(out)
        if given:
            raise InputError("--per-case", f"--{given[0]}", "neither --ratings, --bad nor --good: no output is read")
    elif out.suffix not in RUBRIC_SUFFIXES:
        raise InputError("--out", repr(str(out)), "a file name that ends in .yaml")
    elif "good" in given and "bad" not in given:
        raise InputError("--good", "no --bad", "both, or --bad alone")
    if budget_usd is not None and not 0 <= budget_usd < float("inf"):
        raise InputError("--budget-usd", f"{budget_usd:g}", "dollars, 0 or more")


def _cases(option: str, value: str | None) -> frozenset[str]:
    """Ids of cases, separated by commas or as lines of a file. Raises `InputError` if there are none."""
    if value is None:
        return frozenset()
    path = Path(value)
    text = value
    if os.path.isfile(value):  # noqa: PTH113 - Path raises where a name is too long
        if path.stat().st_size > MOST_CASE_BYTES:
            raise InputError(option, f"{path.stat().st_size:,} bytes in {value}", f"at most {MOST_CASE_BYTES:,}")
        text = path.read_text("utf-8", "replace")
    cases = frozenset(case.strip() for case in text.replace(",", "\n").splitlines() if case.strip())
    if not cases:
        raise InputError(option, repr(value), "ids of cases")
    return cases


def _show_forecast(forecast: Forecast, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(forecast))
        return
    stored_clause = f"; {forecast.stored_count:,} more are answered already" if forecast.stored_count else ""
    say(
        f"about {counted(forecast.question_count, 'question')}, {price_words(forecast.cost_usd)}"
        f"{f' (up to {price_words(forecast.cost_high_usd)})' if forecast.cost_high_usd else ''}{stored_clause}",
        "the number of trial questions depends on the criteria; --budget-usd is a limit that no request passes",
    )


def _as_json(drafted: Drafted | CasesDrafted, out: Path) -> dict[str, Any]:
    """Plain JSON of a draft: its file, criteria, dropped proposals, notes and costs."""
    if isinstance(drafted, CasesDrafted):
        criteria: dict[str, Any] = {"criterion_counts": dict(drafted.counts)}
    else:
        kept_figures = drafted.kept.items()
        criteria = {"criteria": [{"criterion_id": name} | (asdict(one) if one else {}) for name, one in kept_figures]}
    remarks = {"dropped": [asdict(one) for one in drafted.dropped], "notes": list(drafted.notes)}
    return {"out": str(out) if drafted.text is not None else None} | criteria | remarks | asdict(drafted.tally)


def _dropped_lines(dropped: Sequence[Dropped]) -> list[str]:
    """Line for each of the first proposals that were not accepted."""
    lines = [f"dropped: {one.name}: {one.reason}" for one in dropped[:MOST_DROPPED]]
    more_count = len(dropped) - len(lines)
    return [*lines, *([f"and {more_count:,} more; --json lists all"] if more_count else [])]


def _show(drafted: Drafted, out: Path, outputs: str, judge: str) -> None:
    if drafted.kept:
        heads = ("criterion", "good", "bad", "difference", "95% interval", "same level twice")
        show_rows(heads, (_cells(name, figures) for name, figures in drafted.kept.items()))
    _show_asked(drafted)
    if drafted.text is None:
        say("no criterion was accepted, and no file is written: give more outputs, or say with --notes what matters")
    else:
        evaluated = ["evaluate", outputs, "--rubric", _path(out), "--judge", judge]
        _show_next(out, ["rubric", "lint", str(out)], evaluated)


def _show_cases(drafted: CasesDrafted, out: Path, judge: str) -> None:
    _show_asked(drafted)
    criteria = counted(sum(drafted.counts.values()), "criterion", "criteria")
    no_file = "; no file is written" if drafted.text is None else ""
    say(f"{criteria} of {counted(len(drafted.counts), 'case')}{no_file}")
    if drafted.text is not None:
        collected = ["collect", str(out), "--endpoint", "MODEL", "--out", "outputs.jsonl"]
        _show_next(out, collected, ["evaluate", str(out), "--rubric", "none", "--judge", judge])


def _show_asked(drafted: Drafted | CasesDrafted) -> None:
    """Print a draft's notes, its dropped proposals, and the count and cost of its requests."""
    tally = drafted.tally
    stored_clause = f", {tally.stored_count:,} replies from the ledger" if tally.stored_count else ""
    billed = f"{counted(tally.request_count, 'request')}, billed {price_words(tally.cost_usd)}{stored_clause}"
    say(*(f"note: {note}" for note in drafted.notes), *_dropped_lines(drafted.dropped), billed)


def _show_next(out: Path, *commands: Sequence[str]) -> None:
    """Print the path of the written file, and commands to use it with."""
    stderr.print(f"wrote {plain(out)}; read it, then:", markup=False, soft_wrap=True)
    for command in commands:
        stderr.print(f"  {plain(shell_line(['gradebook', *command]))}", markup=False, soft_wrap=True)


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
    path = out or Path("drafted.jsonl" if is_per_case else "drafted.yaml")
    signal_options = [name for name, value in (("ratings", ratings), ("bad", bad), ("good", good)) if value is not None]
    _refuse_options(path, signal_options, budget_usd, is_per_case=is_per_case)
    if not dry_run:
        refuse_taken(path, is_forced=is_forced)  # before money is spent
    mapped = read_column_map(column_map or [])
    price: Callable[[Judge, Lake], Forecast]
    make: Callable[[Judge, Lake], Drafted | CasesDrafted]
    if is_per_case:
        rows = CaseDraftRequest(outputs, notes, budget_usd, mapped)
        price, make = partial(price_cases, rows), partial(draft_cases, rows)
    else:
        signals = Said(_cases("--bad", bad), _cases("--good", good), ratings)
        request = DraftRequest(outputs, path, signals, notes, budget_usd, mapped)
        price, make = partial(price_draft, request), partial(draft_rubric, request)
    settings, found_lake = read_judge(judge, os.environ), find_lake(lake, data)
    if dry_run:
        _show_forecast(price(settings, found_lake), as_json=as_json)
        return
    with shown_progress():
        drafted = make(settings, found_lake)
    if drafted.text is not None:
        write_new(path, drafted.text, is_forced=is_forced)
    if as_json:
        print_json(_as_json(drafted, path))
    elif isinstance(drafted, CasesDrafted):
        _show_cases(drafted, path, judge)
    else:
        _show(drafted, path, outputs, judge)
    raise typer.Exit(DONE if drafted.text is not None else NOT_MET)
