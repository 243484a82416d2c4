"""The lake that a command reads figures from."""

from gradebook.flows.display.terminal import notes, plain
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.errors import RESTORE
from gradebook.tasks.lake.file_digests import CHANGED, changed_newest_files
from gradebook.tasks.lake.versions import find_lake_at


def read_lake(uri: str, data: str | None, at: str | None = None) -> Lake:
    """As `find_lake_at`; names on stderr its newest files whose content changed since they were published."""
    lake = find_lake_at(uri, data, at)
    for path in changed_newest_files(lake):
        sentence = f"gradebook: {plain(path)}: {CHANGED}, so figures may be wrong: {RESTORE}"
        notes.print(sentence, markup=False, soft_wrap=True)
    return lake
