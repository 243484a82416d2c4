"""Lists and descriptions of checks, on stdout."""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import typer
from rich.table import Table
from rich.text import Text

from gradebook.flows.display.terminal import notes, people, plain
from gradebook.tasks.scoring.try_check import Tried

VERDICTS = {True: "pass", False: "fail", None: "unscored"}


def show_checks(listed: Sequence[Mapping[str, Any]]) -> None:
    """Print one line for each check under its family's title."""
    for title, checks in groupby(listed, key=lambda check: check["family"]):
        people.print(f"[bold]{title}[/]")
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column()
        for check in checks:
            table.add_row(f"  {check['name']}", Text(check["summary"]))
        people.print(table)
    if not listed:
        notes.print("no check fits; `gradebook checks list` shows them all")


def show_check(check: Mapping[str, Any]) -> None:
    """Print a check's summary, details, settings and examples."""
    people.print(Text(check["name"], "bold"))
    people.print(Text(check["summary"]))
    if check["details"]:
        people.print(Text(_joined_lines(check["details"])))
    people.print()
    table = Table("setting", "default", "meaning", box=None, pad_edge=False)
    for setting in check["settings"]:
        table.add_row(setting["name"], Text(setting["default"]), Text(setting["meaning"]))
    people.print(table if check["settings"] else "no settings")
    people.print()
    for example in check["examples"]:
        settings = f"{_json(example['settings'])} " if example["settings"] else ""
        row = {key: value for key, value in example.items() if key not in ("settings", "is_passed")}
        people.print(f"{VERDICTS[example['is_passed']]:8}", Text(f"{settings}over {_json(row)}"))
    people.print()
    people.print(Text(f"reads {', '.join(check['columns'])}; cost {check['cost']}"))


def show_tried(tried: Tried) -> None:
    """Print the verdict and its evidence on one line."""
    found = tried.reason if tried.is_passed is None else tried.evidence
    level = f" ({tried.level_id})" if tried.level_id else ""
    typer.echo(f"{VERDICTS[tried.is_passed]}{level}" + (f": {plain(found)}" if found else ""))


def _joined_lines(text: str) -> str:
    """Join the lines of each paragraph, so that the console alone wraps them; indented and listed lines stay."""
    return re.sub(r"(?<=\S)\n(?![\s\-*|]|\d+\. )", " ", text)


def _json(value: Any) -> str:
    return plain(json.dumps(value, ensure_ascii=False))
