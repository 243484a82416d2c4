"""The commands `gradebook lake versions`, the log of a lake's versions, and `compact`, upkeep of its files."""

from typing import Annotated

import typer

from gradebook.flows.commands.options import DEFAULT_LAKE, DataOption, JsonOption, LakeOption, print_json
from gradebook.flows.display.terminal import show_rows, stderr, stdout
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.compaction import compact_lake
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
    publication, the cost of its report, and each step of `gradebook lake compact`.

    \b
    gradebook lake versions
    gradebook lake versions --limit 100 --json
    gradebook sql "from run_scores" --at 12
    """
    log = list_versions(find_lake(lake, data), limit, is_all=is_all)
    if as_json:
        print_json(log.as_json())
    else:
        _show_log(log)


def _show_log(log: VersionLog) -> None:
    rows = [
        (version.version, version.message, _added(version.row_counts), f"{version.made_at:%Y-%m-%d %H:%M}")
        for version in log.versions
    ]
    published = {index for index, version in enumerate(log.versions) if version.kind == "published"}
    show_rows(("version", "cause", "rows added", "made at (UTC)"), rows, bold=published)
    left_out = [f"{log.older_count:,} older (--limit)"] if log.older_count else []
    left_out += [f"{log.hidden_count:,} intermediate (--all)"] if log.hidden_count else []
    if left_out:
        stderr.print(f"not listed: {', '.join(left_out)}")


def _added(row_counts: dict[str, int]) -> str:
    """Tables with the most added rows, and their counts: `verdicts +588, outputs +84, 15 more`."""
    additions = [f"{table} +{count:,}" for table, count in row_counts.items()]
    more_count = len(additions) - MOST_TABLES_SHOWN
    return ", ".join([*additions[:MOST_TABLES_SHOWN], *([f"{more_count} more"] if more_count > 0 else [])])


def compact(lake: LakeOption = DEFAULT_LAKE, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Merge a lake's small files and delete unreferenced ones.

    Every version stays readable. Other processes may read and write at the same time; tables that they write to are
    left for the next compaction.

    \b
    gradebook lake compact
    gradebook lake compact --lake sqlite:lake/catalog.sqlite --json
    """
    done = compact_lake(find_lake(lake, data))
    if as_json:
        print_json(done.as_json())
    else:
        stdout.print(done.sentence, highlight=False, soft_wrap=True)
