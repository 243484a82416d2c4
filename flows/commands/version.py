"""The command `gradebook versions`: the log of the tables' versions."""

from typing import Annotated

import typer

from gradebook.flows.commands.options import DEFAULT_LAKE, DataOption, JsonOption, LakeOption, print_json
from gradebook.flows.display.terminal import notes, show_rows
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.versions import VersionLog, list_versions

MOST_TABLES_SHOWN = 2


def versions(
    limit: Annotated[int, typer.Option("--limit", help="number of versions to list")] = 20,
    is_all: Annotated[bool, typer.Option("--all", help="include intermediate versions of runs")] = False,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the versions of the tables, newest first.

    Each row shows the time (UTC), the cause and the added rows. A published run is one version; so are an import of
    ratings and a failed run. --all also lists intermediate versions: the start of a run, its judgments before
    publication, the cost of its report, and each step of `gradebook compact`.

    \b
    gradebook versions
    gradebook versions --limit 100 --json
    gradebook sql "from run_scores" --at 12
    """
    log = list_versions(find_lake(lake, data), limit, is_all=is_all)
    if as_json:
        print_json(log.as_json())
    else:
        _show_log(log)


def _show_log(log: VersionLog) -> None:
    rows = [
        (each.version, each.message, _added(each.row_counts), f"{each.made_at:%Y-%m-%d %H:%M}") for each in log.versions
    ]
    published = {index for index, each in enumerate(log.versions) if each.kind == "published"}
    show_rows(("version", "cause", "rows added", "made at (UTC)"), rows, bold=published)
    left_out = [f"{log.older_count:,} older (--limit)"] if log.older_count else []
    left_out += [f"{log.hidden_count:,} intermediate (--all)"] if log.hidden_count else []
    if left_out:
        notes.print(f"not listed: {', '.join(left_out)}")


def _added(row_counts: dict[str, int]) -> str:
    """Tables with the most added rows, and their counts: `verdicts +588, outputs +84, 15 more`."""
    words = [f"{table} +{count:,}" for table, count in row_counts.items()]
    more_count = len(words) - MOST_TABLES_SHOWN
    return ", ".join([*words[:MOST_TABLES_SHOWN], *([f"{more_count} more"] if more_count > 0 else [])])
