"""Media of outputs: sound files named or embedded in audio outputs, and the media that judges are shown."""

import base64
import errno
from collections.abc import Iterator
from dataclasses import replace
from itertools import repeat
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import orjson
import pyarrow as pa

from gradebook.rubrics.check_kit.check import MADE_COLUMNS
from gradebook.rubrics.check_kit.columns import EXCERPT_CHARACTERS, cut_text
from gradebook.rubrics.prompts.media import UNREADABLE, read_media, read_recording, too_large
from gradebook.rubrics.prompts.media_kinds import UnreadableMedia
from gradebook.rubrics.prompts.prompt import Case

MOST_FILE_BYTES = 200_000_000
MOST_HELD_BYTES = 64_000_000  # plus one file: the most that a slice of a shard may contain
MOST_HELD_ROWS = 64
MOST_PATH_CHARACTERS = 1_000
NO_SOUND = f"{UNREADABLE}: the row names no sound, expected its `audio`"
EXPECTED = "expected file:PATH or data:audio/...;base64,"


class Sound(NamedTuple):
    """Bytes of a sound file, or the reason why they are missing; exactly one is None."""

    content: bytes | None
    fault: str | None


class Unfetched(Exception):
    """A file can't be fetched; the message says why."""


def with_audio(shard: pa.Table, folders: tuple[Path, ...]) -> pa.Table:
    """Shard with the columns `audio` and `audio_fault`, all in memory at once."""
    return pa.concat_tables(audio_slices(shard, folders))


def audio_slices(shard: pa.Table, folders: tuple[Path, ...]) -> Iterator[pa.Table]:
    """Slices of the shard, in order, each with `audio` (null if unreadable) and `audio_fault` (the reason).

    folders: searched in order for a relative path. Yields at least one slice, also for an empty shard; each holds at
    most 64 rows and 64 MB, or one file.
    """
    roots = [folder.resolve() for folder in folders]
    sounds: list[Sound] = []
    start = held_bytes = 0
    metadata = shard.column("metadata") if "metadata" in shard.column_names else repeat(None)
    for row, (output, about) in enumerate(zip(shard.column("output"), metadata, strict=False)):
        sound = read_sound(sound_of(output.as_py(), about and about.as_py()), roots)
        size = len(sound.content or b"")
        if sounds and (len(sounds) == MOST_HELD_ROWS or held_bytes + size > MOST_HELD_BYTES):
            yield _with_sounds(shard.slice(start, len(sounds)), sounds)
            sounds, start, held_bytes = [], row, 0
        sounds.append(sound)
        held_bytes += size
    yield _with_sounds(shard.slice(start, len(sounds)), sounds)


def sound_of(output: str, metadata: str | None) -> str:
    """Name or `data:` address of an output's sound: the row's `audio`, else the output itself.

    metadata: JSON object text. With `audio`, the output is the transcript, and one rubric scores both.
    """
    return audio_of(metadata) or output


def audio_of(metadata: str | None) -> str | None:
    """The row's `audio`, by which a transcript names its sound. metadata: JSON object text."""
    if not metadata or '"audio"' not in metadata:
        return None
    audio = orjson.loads(metadata).get("audio")
    return audio if isinstance(audio, str) else None


def _with_sounds(rows: pa.Table, sounds: list[Sound]) -> pa.Table:
    columns = {"audio": [sound.content for sound in sounds], "audio_fault": [sound.fault for sound in sounds]}
    for name, values in columns.items():
        rows = rows.append_column(name, pa.array(values, MADE_COLUMNS[name]))
    return rows


def read_sound(output: str, roots: list[Path]) -> Sound:
    """Fetch the sound file of one output. roots: resolved folders."""
    text = output.strip()
    try:
        if text[:5].lower() == "file:":
            return Sound(_read_file(find_file(text[5:], roots)), None)
        if text[:5].lower() == "data:":
            return Sound(_decode(text), None)
        raise Unfetched(f"found {_quoted(text)}, {EXPECTED}")
    except Unfetched as fault:
        return Sound(None, str(fault))
    except OSError as error:
        return Sound(None, f"can't be read: {errno.errorcode.get(error.errno or 0, 'unknown error')}: {_quoted(text)}")


def find_file(name: str, roots: list[Path]) -> Path:
    """Find a file by name in the first root that has it; nothing outside the roots is ever opened.

    roots: resolved folders. Raises `Unfetched` or `OSError`.
    """
    if len(name) > MOST_PATH_CHARACTERS:
        raise Unfetched(f"found a path of {len(name)} characters, at most {MOST_PATH_CHARACTERS}")
    path = PurePosixPath(name)
    if not name or "\0" in name or path.is_absolute() or ".." in path.parts:
        raise Unfetched(f"found the path {_quoted(name)}, expected one below the folder of the outputs")
    for root in roots:
        resolved = _resolve(root / name)
        if not resolved.is_relative_to(root):
            raise Unfetched(f"found a link out of the folder of the outputs: {_quoted(name)}")
        if resolved.is_file():
            return resolved
    raise Unfetched(f"no such file: {_quoted(name)}")


def _resolve(path: Path) -> Path:
    try:
        return path.resolve()
    except RuntimeError:  # Python 3.11 and 3.12 report a loop of links this way
        raise OSError(errno.ELOOP, "links in a circle") from None


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read(MOST_FILE_BYTES + 1)
    _refuse_size(len(content))
    return content


def _decode(text: str) -> bytes:
    header, comma, payload = text.partition(",")
    kind = header.lower()
    if not comma or not kind.startswith("data:audio/") or not kind.endswith(";base64"):
        raise Unfetched(f"found {_quoted(header)}, {EXPECTED}")
    _refuse_size(len(payload) // 4 * 3)
    try:
        return base64.b64decode("".join(payload.split()), validate=True)
    except ValueError as error:
        raise Unfetched(f"found no base64 behind {_quoted(header)}: {error}") from None


def _refuse_size(byte_count: int) -> None:
    if byte_count > MOST_FILE_BYTES:
        raise Unfetched(f"too large: found more than {MOST_FILE_BYTES} bytes, at most {MOST_FILE_BYTES}")


def _quoted(text: str) -> str:
    return repr(cut_text(text, EXCERPT_CHARACTERS))


class MediaFiles:
    """Folders of a dataset that contain the pictures and sounds of its cases."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._roots = [folder.resolve() for folder in folders]

    def show(self, case: Case) -> Case:
        """Prepare a case for a judge: placeholders in its texts, and its pictures and sounds attached.

        case: with its stored texts. All files are read and checked. If one can't be shown, none is, and `media_fault`
        says why.
        """
        media = read_media(case.prompt, case.output, self.read)
        if not (media.media or media.fault):
            return case
        return replace(case, prompt=media.prompt, output=media.output, media=media.media, media_fault=media.fault)

    def hear(self, case: Case) -> Case:
        """Attach the sound of a transcript to a shown case; without any sound, `media_fault` says so."""
        if case.media_fault is not None:
            return case
        if case.audio is None:
            is_heard = any(medium.kind == "audio" and medium.place == "output" for medium in case.media)
            return case if is_heard else replace(case, media=(), media_fault=NO_SOUND)
        try:
            sound = read_recording(case.audio, len(case.media) + 1, self.read)
        except UnreadableMedia as fault:
            return replace(case, media=(), media_fault=str(fault))
        return replace(case, media=(*case.media, sound))

    def read(self, name: str, most_bytes: int) -> bytes:
        """Read a file by name. Raises `UnreadableMedia` if there is none, or it has more than `most_bytes`."""
        try:
            with find_file(name, self._roots).open("rb") as file:
                content = file.read(most_bytes + 1)
        except Unfetched as fault:
            raise UnreadableMedia(str(fault)) from None
        except OSError as error:
            raise UnreadableMedia(f"can't be read: {error.strerror or type(error).__name__}") from None
        if len(content) > most_bytes:
            raise UnreadableMedia(too_large(most_bytes))
        return content
