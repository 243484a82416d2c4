"""The command `gradebook compact`: upkeep of a lake's files."""

from gradebook.flows.commands.options import DEFAULT_LAKE, DataOption, JsonOption, LakeOption, print_json
from gradebook.flows.display.terminal import people
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.compaction import compact_lake


def compact(lake: LakeOption = DEFAULT_LAKE, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Merge a lake's small files and delete unreferenced ones.

    Every version stays readable. Other processes may read and write at the same time; tables that they write to are
    left for the next compaction.

    \b
    gradebook compact
    gradebook compact --lake sqlite:lake/catalog.sqlite --json
    """
    done = compact_lake(find_lake(lake, data))
    if as_json:
        print_json(done.as_json())
    else:
        people.print(done.sentence, highlight=False, soft_wrap=True)
