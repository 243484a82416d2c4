"""Reading of regular files of limited size, such as files that other files name.

A named file must be below the folder of the file that names it.
"""

import errno
import os
import stat
from pathlib import Path, PurePosixPath

from gradebook.rubrics.text.plain_words import quote_value


def is_path(name: str) -> bool:
    """Whether a name denotes a file: it has a suffix of YAML or JSON, or a slash.

    A bare name does not: otherwise a file of that name in the folder would shadow the shipped rubric.
    """
    return "/" in name or name.endswith((".yaml", ".yml", ".json"))


class UnreadableFile(ValueError):
    """The file can't be read; the message repeats nothing of its content."""


class NoFile(UnreadableFile):
    """No file of that name exists."""


def read_below(name: str, folder: Path, most_bytes: int, whose: str = "rubric") -> bytes:
    """Content of a file that another file names by a path relative to its own folder.

    whose: kind of the file that names it, for messages. Raises `UnreadableFile` for a path that leads out of the
    folder, also through a link, for anything but a regular file, and for more than `most_bytes`.
    """
    is_written_below = not (name.startswith("/") or ".." in PurePosixPath(name).parts or "\\" in name or ":" in name)
    if not is_written_below or not name or "\x00" in name:
        raise UnreadableFile(f"found {quote_value(name)}, expected a path below the {whose}'s folder")
    root, path = os.path.realpath(folder), os.path.realpath(folder / name)
    if os.path.commonpath([root, path]) != root:
        raise UnreadableFile(
            f"found {quote_value(name)}, which leads out of the {whose}'s folder, expected a file below it"
        )
    try:
        content = _read(path, most_bytes, os.O_NOFOLLOW)  # the path is resolved and contains no link
    except (FileNotFoundError, NotADirectoryError):
        raise NoFile(f"found no file {quote_value(name)} beside the {whose}, expected one") from None
    except OSError as error:
        raise UnreadableFile(
            f"found {quote_value(name)}, which can't be read ({error.strerror}), expected a file"
        ) from None
    if content is None:
        raise NoFile(f"found no file {quote_value(name)} beside the {whose}, expected one")
    if len(content) > most_bytes:
        raise UnreadableFile(f"found more than {most_bytes:,} bytes in {quote_value(name)}, expected fewer")
    return content


def read_whole(path: Path, most_bytes: int) -> bytes:
    """Content of a file, which may be reached by links.

    Raises `OSError` for a FIFO or a device, which may have no end, and for more than `most_bytes`; `ValueError` for a
    name with a NUL.
    """
    content = _read(path, most_bytes)
    if content is None:
        raise OSError(errno.EINVAL, "neither a file nor a link to one", str(path))
    if len(content) > most_bytes:
        raise OSError(errno.EINVAL, f"more than {most_bytes:,} bytes", str(path))
    return content


def _read(path: str | Path, most_bytes: int, flags: int = 0) -> bytes | None:
    """First `most_bytes` + 1 bytes of a regular file; None for any other kind of file. Raises `OSError`."""
    # O_NONBLOCK: opening a FIFO would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(most_bytes + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
