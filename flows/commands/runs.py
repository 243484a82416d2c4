"""The command `gradebook runs`."""

from gradebook.flows.commands.options import DEFAULT_LAKE, AtOption, DataOption, JsonOption, LakeOption, print_json
from gradebook.flows.display.terminal import show_rows
from gradebook.tasks.lake.versions import find_lake_at
from gradebook.tasks.published.run_list import list_runs


def runs(
    at: AtOption = None, lake: LakeOption = DEFAULT_LAKE, data: DataOption = None, as_json: JsonOption = False
) -> None:
    """List the runs of a lake, newest first."""
    rows = list_runs(find_lake_at(lake, data, at))
    if as_json:
        print_json({"runs": list(rows)})
    elif rows:
        for row in rows:
            row["reason"] = (row["reason"] or "").partition("\n")[0]
        show_rows(rows[0], (row.values() for row in rows))
