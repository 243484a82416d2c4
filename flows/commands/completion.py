"""Shell completion of values: rubrics, ids of runs and criteria. An error completes nothing, silently."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import wraps
from pathlib import Path

import typer

from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.workspace.folder import usual_lake

Completion = Callable[[typer.Context, str], list[str]]
_RUBRIC_KEYS = re.compile(rb"^(criteria|extends):", re.MULTILINE)  # judges and suites are YAML files too
_CRITERIA = "select distinct criterion_id from criteria order by all"


def _silent(names: Callable[[typer.Context], Iterable[str]]) -> Completion:
    """Completion by the names that begin with what is typed; none with characters that could control a terminal."""

    @wraps(names)
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        found: list[str] = []
        with suppress(Exception):  # whatever it is: the shell would show it in the middle of the typed line
            found += (name for name in names(ctx) if name.startswith(incomplete) and name.isprintable())
        return found

    complete.__annotations__ = {"ctx": typer.Context, "incomplete": str}
    del complete.__wrapped__  # typer reads the signature
    return complete


def _lake_of(ctx: typer.Context) -> Lake:
    named = ctx.params.get("lake") or usual_lake()
    return find_lake(named, ctx.params.get("data"))


def complete_word(words: Iterable[str]) -> Completion:
    """Completion by the allowed words of an option."""
    return _silent(lambda _ctx: words)


@_silent
def complete_rubric(ctx: typer.Context) -> Iterator[str]:
    """Names of the shipped rubrics, rubric files of the working folder, and versions in the lake."""
    from gradebook.rubrics.files.load import shipped_rubrics

    yield from shipped_rubrics()
    for path in (*Path().glob("*.yaml"), *Path().glob("*.yml")):
        if path.is_file() and _RUBRIC_KEYS.search(path.read_bytes()):
            yield path.name
    from gradebook.tasks.rubric_store.versions import list_versions

    for row in list_versions(_lake_of(ctx)):
        yield f"{row['rubric_id']}@{row['rubric_version']}"


@_silent
def complete_run(ctx: typer.Context) -> Iterable[str]:
    """Ids of runs, newest first: from the folders of the runs, which takes no time, or else from the lake's tables."""
    lake = _lake_of(ctx)
    folders = [path for path in (lake.root / "runs").glob("*") if path.is_dir()]
    if folders:
        return [path.name for path in sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True)]
    from gradebook.tasks.published.run_list import list_runs

    return [str(row["run_id"]) for row in list_runs(lake)]


@_silent
def complete_baseline(ctx: typer.Context) -> Iterator[str]:
    """The word `latest`, and ids of runs."""
    yield "latest"
    yield from complete_run(ctx, "")


@_silent
def complete_criterion(ctx: typer.Context) -> Iterable[str]:
    """Criteria of the rubrics in the lake."""
    from gradebook.tasks.lake.connections import connect
    from gradebook.tasks.lake.rows import read_rows

    with connect(_lake_of(ctx), read_only=True) as connection:
        return [str(row["criterion_id"]) for row in read_rows(connection, _CRITERIA)]


@_silent
def complete_table(_ctx: typer.Context) -> Iterable[str]:
    """Names of tables, marts and views."""
    from gradebook.tasks.lake.table_list import list_tables

    return [table.name for table in list_tables()]


COMPLETIONS: dict[str, Completion] = {"rubric": complete_rubric, "baseline": complete_baseline}  # by option's name
