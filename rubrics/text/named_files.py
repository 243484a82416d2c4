"""Files that other files name: regular files of limited size, below the folder of the file that names them."""

import os
import stat
from pathlib import Path, PurePosixPath

from gradebook.rubrics.text.plain_words import shown


def is_path(name: str) -> bool:
    """Whether a name denotes a file: it has a suffix of YAML or JSON, or a slash.

    A bare name never does: a file of that name in somebody's folder would take the place of what it names.
    """
    return "/" in name or name.endswith((".yaml", ".yml", ".json"))


class UnreadableFile(ValueError):
    """The file can't be read; the message says what was found and expected, and repeats nothing of its content."""


class NoFile(UnreadableFile):
    """No file of that name exists."""


def read_below(name: str, folder: Path, most_bytes: int, whose: str = "rubric") -> bytes:
    """Content of a file that another file names by a path relative to its own folder.

    whose: kind of the file that names it, for messages. Raises `UnreadableFile` for a path that leads out of the
    folder, also through a link, for anything but a regular file, and for more than `most_bytes`.
    """
    is_written_below = not (name.startswith("/") or ".." in PurePosixPath(name).parts or "\\" in name or ":" in name)
    if not is_written_below or not name or "\x00" in name:
        raise UnreadableFile(f"found {shown(name)}, expected a path below the {whose}'s folder")
    above, place = os.path.realpath(folder), os.path.realpath(folder / name)
    if os.path.commonpath([above, place]) != above:
        raise UnreadableFile(f"found {shown(name)}, which leads out of the {whose}'s folder, expected a file below it")
    # O_NONBLOCK: opening a FIFO would wait for a writer. O_NOFOLLOW: the path has no link any more.
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise NoFile(f"found no file {shown(name)} beside the {whose}, expected one") from None
    except OSError as error:
        raise UnreadableFile(f"found {shown(name)}, which can't be read ({error.strerror}), expected a file") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NoFile(f"found no file {shown(name)} beside the {whose}, expected one")
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise UnreadableFile(f"found more than {most_bytes:,} bytes in {shown(name)}, expected fewer")
    return content
