"""Lake that a command reads figures from."""

from gradebook.flows.display.terminal import plain, stderr
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.data_files import CHANGED, changed_newest_files
from gradebook.tasks.lake.errors import RESTORE
from gradebook.tasks.lake.versions import find_lake_at


def read_lake(uri: str, data: str | None, at: str | None = None) -> Lake:
    """Find a lake at a version; warns on stderr about newest files that have changed since publication."""
    lake = find_lake_at(uri, data, at)
    for path in changed_newest_files(lake):
        sentence = f"gradebook: {plain(path)}: {CHANGED}, so figures may be wrong: {RESTORE}"
        stderr.print(sentence, markup=False, soft_wrap=True)
    return lake
