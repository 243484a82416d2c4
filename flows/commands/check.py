"""The commands `gradebook rubric checks ...`: list, show and try deterministic checks."""

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from gradebook.flows.commands.options import DONE, NOT_MET, JsonOption, print_json
from gradebook.flows.display.terminal import plain, stderr, stdout
from gradebook.rubrics.checks.registry import check_names, describe_check, families, find_check
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.scoring.try_check import CheckTrial, known_check, read_metadata, read_setting_words, try_check

VERDICTS = {True: "pass", False: "fail", None: "unscored"}


def show_checks(listed: Sequence[Mapping[str, Any]]) -> None:
    """Print one line for each check under its family's title."""
    for title, checks in groupby(listed, key=lambda check: check["family"]):
        stdout.print(f"[bold]{title}[/]")
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column()
        for check in checks:
            table.add_row(f"  {check['name']}", Text(check["summary"]))
        stdout.print(table)
    if not listed:
        stderr.print("no check fits; `gradebook rubric checks list` shows them all")


def show_check(check: Mapping[str, Any]) -> None:
    """Print a check's summary, details, settings and examples."""
    stdout.print(Text(check["name"], "bold"))
    stdout.print(Text(check["summary"]))
    if check["details"]:
        stdout.print(Text(_joined_lines(check["details"])))
    stdout.print()
    table = Table("setting", "default", "meaning", box=None, pad_edge=False)
    for setting in check["settings"]:
        table.add_row(setting["name"], Text(setting["default"]), Text(setting["meaning"]))
    stdout.print(table if check["settings"] else "no settings")
    stdout.print()
    for example in check["examples"]:
        settings = f"{_json(example['settings'])} " if example["settings"] else ""
        row = {key: value for key, value in example.items() if key not in ("settings", "is_passed")}
        stdout.print(f"{VERDICTS[example['is_passed']]:8}", Text(f"{settings}over {_json(row)}"))
    stdout.print()
    stdout.print(Text(f"reads {', '.join(check['columns'])}; cost {check['cost']}"))


def show_tried(tried: CheckTrial) -> None:
    """Print the verdict and its evidence on one line."""
    detail = tried.reason if tried.is_passed is None else tried.evidence
    level = f" ({tried.level_id})" if tried.level_id else ""
    typer.echo(f"{VERDICTS[tried.is_passed]}{level}" + (f": {plain(detail)}" if detail else ""))


def _joined_lines(text: str) -> str:
    """Join the lines of each paragraph, so that the console wraps them; indented lines and list entries stay."""
    return re.sub(r"(?<=\S)\n(?![\s\-*|]|\d+\. )", " ", text)


def _json(value: Any) -> str:
    return plain(json.dumps(value, ensure_ascii=False))


def _complete_name(incomplete: str) -> list[str]:
    return [name for name in check_names() if name.startswith(incomplete)]


NameArgument = Annotated[str, typer.Argument(help="a check's name", autocompletion=_complete_name)]


def list_checks(
    words: Annotated[str, typer.Argument(help="only checks with this text in their name or summary")] = "",
    as_json: JsonOption = False,
) -> None:
    """List the checks by family, with a one-line summary each.

    \b
    gradebook rubric checks list
    gradebook rubric checks list json
    """
    listed = [
        {"family": title, **describe_check(find_check(name))}
        for title, names in families()
        for name in names
        if words.casefold() in f"{title} {name} {find_check(name).summary}".casefold()
    ]
    if as_json:
        print_json({"checks": listed})
    else:
        show_checks(listed)


def show(name: NameArgument, as_json: JsonOption = False) -> None:
    """Show a check's rule, settings and examples.

    \b
    gradebook rubric checks show length_words
    """
    described = describe_check(known_check(name))
    if as_json:
        print_json(described)
    else:
        show_check(described)


def try_out(  # noqa: PLR0913 - each is an option
    name: NameArgument,
    output: Annotated[str | None, typer.Argument(help="the output to check; - or a pipe: stdin")] = None,
    text: Annotated[str | None, typer.Option("--text", help="the output to check; - reads stdin")] = None,
    file: Annotated[Path | None, typer.Option("--file", help="a file with the output to check")] = None,
    set_words: Annotated[
        list[str] | None, typer.Option("--set", help="a setting, such as max=20; may be repeated")
    ] = None,
    settings: Annotated[str | None, typer.Option("--settings", help="all settings as one JSON object")] = None,
    mode: Annotated[str, typer.Option("--mode", help="strict or loose")] = "strict",
    prompt: Annotated[str | None, typer.Option("--prompt", help="the row's prompt")] = None,
    reference: Annotated[str | None, typer.Option("--reference", help="the row's reference")] = None,
    context: Annotated[list[str] | None, typer.Option("--context", help="a context passage; may be repeated")] = None,
    metadata: Annotated[str | None, typer.Option("--metadata", help="the row's metadata as a JSON object")] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a check on one text and show its verdict.

    \b
    gradebook rubric checks try length_words "one two three four" --set max=3
    echo '{"id": 1}' | gradebook rubric checks try json_valid
    gradebook rubric checks try contains --set "any=[refund, money back]" \\
        --file reply.txt
    gradebook rubric checks try matches_reference --text Paris --reference paris \\
        --set case_sensitive=false

    Exit: 0 passed, 1 failed or unscored, 2 unknown check or setting.
    """
    check = known_check(name)
    row = {
        "output": _read_output(output, text, file),
        "prompt": prompt,
        "reference": reference,
        "context": context,
        "metadata": read_metadata(metadata),
    }
    tried = try_check(check, read_setting_words(set_words or [], settings), mode, row)
    if as_json:
        print_json(asdict(tried))
    else:
        show_tried(tried)
    raise typer.Exit(DONE if tried.is_passed else NOT_MET)


def _read_output(output: str | None, text: str | None, file: Path | None) -> str:
    sources = [source for source in (output, text, file) if source is not None]
    if len(sources) > 1:
        raise InputError("checks try", "several outputs", "one: an argument, --text or --file")
    if output is not None and os.path.isfile(output):  # noqa: PTH113 - Path raises where a name is too long
        raise InputError("checks try", f"the name of a file, {output}", "--file to check its text, or --text its name")
    if file is None:
        piped = "" if sources or sys.stdin.isatty() else sys.stdin.read()
        if not sources and not piped:
            raise InputError("checks try", "no output to check", "one: an argument, --text, --file or a pipe")
        return piped or (sys.stdin.read() if sources[0] == "-" else str(sources[0]))
    try:
        return file.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise InputError(f"--file {file}", f"a byte that is not UTF-8 at {error.start}", "text") from None
    except (OSError, ValueError) as error:
        raise InputError("--file", f"can't read {file}: {getattr(error, 'strerror', None) or error}") from None
