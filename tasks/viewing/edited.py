"""Texts of rubrics that the editor reads and writes: files of one folder, versions of the lake, shipped rubrics."""

import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gradebook.rubrics.files.dump import rubric_yaml
from gradebook.rubrics.files.load import is_rubric_text, parse_rubric, shipped_rubrics, shipped_text
from gradebook.rubrics.model.errors import InputError, RubricError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.text.named_files import NoFile, UnreadableFile, read_below
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.rubric_store.versions import OtherText, list_versions, stored_rubric, version_before
from gradebook.tasks.system.files import replaced_file, temporary_path

MOST_TEXT = 200_000  # characters of a rubric in the editor
MOST_FILES = 200
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}\.ya?ml")


class RubricFolder:
    """Rubric files of one folder, without those below it and without links."""

    def __init__(self, path: Path) -> None:
        """Raises `InputError` if there is no such folder."""
        if not path.is_dir():
            raise InputError("--rubrics", f"{path}, which is no folder", "the folder of the rubric files")
        self.path = path.resolve()

    def names(self) -> tuple[str, ...]:
        """Names of the rubric files, sorted; at most 200."""
        names = sorted(path.name for path in self.path.iterdir() if NAME.fullmatch(path.name))
        contents = ((name, self._content(name)) for name in names if not (self.path / name).is_symlink())
        return tuple(name for name, content in contents if content is not None and is_rubric_text(content))[:MOST_FILES]

    def read(self, name: str) -> tuple[str, str]:
        """Text of a file, and its digest. Raises `InputError` for a file that is not there or can't be edited."""
        content = self._content(name, is_refused=True)
        if content is None:
            raise InputError("file", f"no {name!r} in {self.path}", "one of those on the page of rubrics")
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise InputError("file", f"bytes that are no UTF-8 in {name}", "a text in UTF-8") from None
        return with_line_feeds(text), _digest(content)

    def save(self, name: str, text: str, read_digest: str) -> None:
        """Write a file whole. read_digest: of the text that the author has seen; "" for a new file.

        Raises `OtherText` if the file has another text by now, `InputError` for a name outside the folder or a link.
        """
        try:
            with self._locked():
                current = self._content(name, is_refused=True)
                if ("" if current is None else _digest(current)) != read_digest:
                    raise OtherText("file", f"another text in {name}", "the one that was read")
                self._write(self.path / name, _like(text, current or b""), is_new=current is None)
        except OSError as error:
            raise InputError("file", f"{name}: {error.strerror or error}", "a folder that can be written") from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock of the folder against other servers and threads that save in it."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _write(self, path: Path, content: bytes, *, is_new: bool) -> None:
        if is_new:  # a link fails where another program made the file just now
            temporary = temporary_path(path)
            try:
                temporary.write_bytes(content)
                path.hardlink_to(temporary)
            except FileExistsError:
                raise OtherText("file", f"another text in {path.name}", "no file of that name yet") from None
            finally:
                temporary.unlink(missing_ok=True)
            return
        with replaced_file(path) as temporary:
            temporary.write_bytes(content)
            temporary.chmod(path.stat().st_mode & 0o777)

    def _content(self, name: str, *, is_refused: bool = False) -> bytes | None:
        """Content of a file; None if there is none. is_refused: raise for what can't be edited."""
        fault = None
        if not NAME.fullmatch(name):
            fault = f"{name[:200]!r}", "a name of letters, digits, `.`, `_` and `-` that ends in .yaml"
        elif (self.path / name).is_symlink():
            fault = f"{name}, which is a link", "a file"
        else:
            try:
                return read_below(name, self.path, 4 * MOST_TEXT)
            except NoFile:
                if (self.path / name).exists():
                    fault = f"{name}, which is no file", "a file"
            except UnreadableFile as error:
                fault = str(error), ""
        if fault is not None and is_refused:
            raise InputError("file", *fault)
        return None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def with_line_feeds(text: str) -> str:
    """Text whose lines end with a line feed alone."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _like(text: str, current: bytes) -> bytes:
    """Text in bytes, with the byte order mark and the line ends of the content that it replaces."""
    mark = b"\xef\xbb\xbf" if current.startswith(b"\xef\xbb\xbf") else b""
    ends = "\r\n" if current and current.count(b"\r\n") == current.count(b"\n") > 0 else "\n"
    return mark + text.replace("\n", ends).encode()


@dataclass(frozen=True, slots=True)
class Source:
    """Text that is edited.

    name: for people and for messages. file: its name in the folder, "" for a version of the lake and a shipped rubric.
    folder: location of the files that it may extend. read_digest: of the file; draft_digest: of the version in the lake
    under the same number; both "" where there is none. base: version from which changes count, None for a new rubric.
    """

    name: str
    text: str
    file: str = ""
    rubric_id: str = ""
    version: str = ""
    folder: Path | None = None
    read_digest: str = ""
    draft_digest: str = ""
    base: Rubric | None = None


def read_source(lake: Lake, folder: RubricFolder, file: str, rubric_id: str, version: str) -> Source:
    """Read a file of the folder, or else a rubric: a version of the lake, by default its latest, or a shipped one.

    Raises `InputError` for what is not there, or longer than the editor takes.
    """
    source = _file_source(lake, folder, file) if file else _rubric_source(lake, rubric_id, version)
    if len(source.text) > MOST_TEXT:
        found = f"{source.name} with {len(source.text):,} characters"
        raise InputError("edit", found, f"at most {MOST_TEXT:,}", "edit it in a text editor")
    return source


def _file_source(lake: Lake, folder: RubricFolder, file: str) -> Source:
    text, digest = folder.read(file)
    base, draft_digest = None, ""
    try:
        current = parse_rubric(text, file, folder.path)
    except RubricError:
        pass
    else:
        base = version_before(lake, current) or current
        draft_digest = stored_digest(lake, current)
    return Source(file, text, file, folder=folder.path, read_digest=digest, draft_digest=draft_digest, base=base)


def _rubric_source(lake: Lake, rubric_id: str, version: str) -> Source:
    rubric = stored_rubric(lake, f"{rubric_id}@{version}" if version else rubric_id) if "@" not in rubric_id else None
    if rubric is not None:
        name = f"{rubric.id} {rubric.version}"
        return Source(
            name,
            rubric_yaml(rubric),
            rubric_id=rubric.id,
            version=rubric.version,
            draft_digest=stored_digest(lake, rubric),
            base=version_before(lake, rubric) or rubric,  # the former for a draft
        )
    if rubric_id not in shipped_rubrics():
        raise InputError("rubric", rubric_id[:200], "a rubric that the lake stores, or a shipped one")
    content, path = shipped_text(rubric_id)
    base = parse_rubric(content, path)
    return Source(f"{rubric_id} {base.version}", content.decode(), rubric_id=rubric_id, base=base)


def stored_digest(lake: Lake, rubric: Rubric) -> str:
    """Digest of the text that the lake stores under a rubric's id and version; "" for none."""
    name = (rubric.id, rubric.version)
    rows = list_versions(lake)
    return next((str(row["digest"]) for row in rows if (row["rubric_id"], row["rubric_version"]) == name), "")
