"""Table of rebuilt marts, and the first rows that differ, on stdout."""

from collections.abc import Mapping
from typing import Any

from rich.markup import escape

from gradebook.flows.display.terminal import notes, people, plain, table_titled
from gradebook.rubrics.model.counts import counted
from gradebook.tasks.stages.compare_marts import Difference, MartCheck
from gradebook.tasks.stages.rebuild import Rebuilt


def show_rebuilt(rebuilt: Rebuilt) -> None:
    """Print the rebuilt marts, the differing rows, and the paths of written files."""
    checks = {check.mart: check for check in rebuilt.checks}
    table = table_titled(f"run {rebuilt.run_id}, rebuilt", "table")
    table.add_column("rows", justify="right")
    if checks:
        table.add_column("as published")
    for mart, count in rebuilt.marts:
        table.add_row(mart, f"{count:,}", *([_words(checks[mart], rebuilt)] if mart in checks else []))
    people.print(table)
    for check in rebuilt.checks:
        for difference in check.differences:
            people.print(f"[red]{check.mart}[/] {escape(_sentence(difference))}")
    if rebuilt.made_by != rebuilt.code_version and not rebuilt.is_equal:
        people.print(
            f"gradebook {rebuilt.made_by} published the run, this is {rebuilt.code_version}: figures differ where a "
            f"formula has changed since. To check the data, rebuild with gradebook {rebuilt.made_by}."
        )
    for file in rebuilt.files:
        notes.print(f"wrote {escape(plain(file))}", soft_wrap=True)


def _words(check: MartCheck, rebuilt: Rebuilt) -> str:
    words = (
        "equal" if check.is_equal else f"[red]{counted(check.differing_count, 'row')} of both tables without a match[/]"
    )
    if not check.new_columns:
        return words
    return f"{words}; made by gradebook {rebuilt.made_by}, new since: {', '.join(check.new_columns)}"


def _sentence(difference: Difference) -> str:
    key = _pairs(difference.key)
    if difference.published is None:
        return f"{key}: only in the rebuilt table"
    if difference.rebuilt is None:
        return f"{key}: only in the published table"
    rebuilt = difference.rebuilt
    changes = [f"{name} {plain(value)} -> {plain(rebuilt[name])}" for name, value in difference.published.items()]
    return f"{key}: {', '.join(changes)} (published -> rebuilt)"


def _pairs(key: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {plain(value)}" for name, value in key.items())
