"""What people see of checks in a terminal; all of it on stdout, for it is what was asked for."""

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gradebook.flows.display.terminal import plain
from gradebook.tasks.scoring.try_check import Tried

VERDICTS = {True: "pass", False: "fail", None: "unscored"}


def show_checks(listed: Sequence[Mapping[str, Any]]) -> None:
    """Print a line a check under its family's title."""
    console = Console(highlight=False)
    for title, checks in groupby(listed, key=lambda check: check["family"]):
        console.print(f"[bold]{title}[/]")
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column()
        for check in checks:
            table.add_row(f"  {check['name']}", Text(check["summary"]))
        console.print(table)
    if not listed:
        console.print("no check fits; gradebook checks list shows them all")


def show_check(check: Mapping[str, Any]) -> None:
    """Print a check's summary, details, settings and examples."""
    console = Console(highlight=False)
    console.print(Text(check["name"], "bold"))
    console.print(Text(check["summary"]))
    if check["details"]:
        console.print(Text(check["details"]))
    console.print()
    table = Table("setting", "default", "meaning", box=None, pad_edge=False)
    for setting in check["settings"]:
        table.add_row(setting["name"], Text(setting["default"]), Text(setting["meaning"]))
    console.print(table if check["settings"] else "no settings")
    console.print()
    for example in check["examples"]:
        settings = f"{_json(example['settings'])} " if example["settings"] else ""
        row = {key: value for key, value in example.items() if key not in ("settings", "is_passed")}
        console.print(f"{VERDICTS[example['is_passed']]:8}", Text(f"{settings}over {_json(row)}"))
    console.print()
    console.print(Text(f"reads {', '.join(check['columns'])}; cost {check['cost']}"))


def show_tried(tried: Tried) -> None:
    """Print the verdict and its evidence on one line."""
    found = tried.reason if tried.is_passed is None else tried.evidence
    level = f" ({tried.level_id})" if tried.level_id else ""
    typer.echo(f"{VERDICTS[tried.is_passed]}{level}" + (f": {plain(found)}" if found else ""))


def _json(value: Any) -> str:
    return plain(json.dumps(value, ensure_ascii=False))
