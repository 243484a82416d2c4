"""Logs of Inspect: `.eval`, a zip of JSON files, and `.json`, all in one document."""

import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any

import orjson
import pyarrow as pa

from gradebook.rubrics.model.canonical import canonical_json
from gradebook.rubrics.model.errors import Fault, OutputsError
from gradebook.tasks.datasets.decompression import BUFFER_BYTES, FREE_BYTES, MOST_RATIO, MOST_ROW_BYTES
from gradebook.tasks.datasets.traces.documents import Document, too_many_values
from gradebook.tasks.datasets.traces.fields import (
    count_of,
    entries_of,
    nanoseconds_of,
    object_of,
    objects_of,
    refuse,
    text_of,
    timing,
)
from gradebook.tasks.datasets.traces.messages import chat_messages
from gradebook.tasks.datasets.traces.talks import Turn, row_of_talk

_ZSTD = 93  # compression method of a member, which Python reads from 3.14 on
_DAMAGES = (
    *(OSError, zipfile.BadZipFile, NotImplementedError, struct.error, EOFError, RuntimeError),
    *(zlib.error, lzma.LZMAError, UnicodeDecodeError),
)
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")


def matches(first: Mapping[str, Any]) -> bool:
    """Whether a file's first object is of this format."""
    return isinstance(first.get("eval"), dict) and isinstance(first.get("samples", []), list) and "version" in first


def samples_of(document: Mapping[str, Any], line: int, size: int) -> Iterator[Document]:
    """Samples of a log in one document, each with the log's own settings."""
    samples = list(entries_of("samples", document.get("samples", [])))
    for sample in samples:
        content = sample if isinstance(sample, str) else sample | {"eval": document["eval"]}
        yield Document(line, content, size // len(samples))


def read_archive(path: Path) -> Iterator[Document]:
    """Samples of an `.eval` file, one in memory at a time. Raises `OutputsError` for a file that is damaged."""
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            header = next((each for each in members if each.filename in ("header.json", "_journal/start.json")), None)
            told = {} if header is None else _read_member(file, archive, header)[0]
            log = object_of(told.get("eval") if isinstance(told, dict) else None)
            samples = [each for each in members if each.filename.startswith("samples/")]
            if len({each.header_offset for each in samples}) < len(samples):
                raise zipfile.BadZipFile("members that overlap")
            left = max(FREE_BYTES, MOST_RATIO * path.stat().st_size)
            for number, member in enumerate(samples, start=1):
                sample, size = _read_member(file, archive, member)
                left -= size
                if left < 0:
                    raise zipfile.BadZipFile(f"members that unpack to more than {MOST_RATIO} times its size")
                content = sample | {"eval": log} if isinstance(sample, dict) else sample
                yield Document(number, content, member.compress_size)
    except _DAMAGES as error:
        message = f"found an Inspect log that can't be read ({error}), expected a whole .eval file"
        raise OutputsError((Fault(str(path), None, message),)) from error


def _read_member(
    file: IO[bytes], archive: zipfile.ZipFile, member: zipfile.ZipInfo
) -> tuple[dict[str, Any] | str, int]:
    """Object of one member, or the reason why there is none; and its size in bytes."""
    opened = _unpacked(file, member) if member.compress_type == _ZSTD else archive.open(member)
    with opened as stream:
        text = b"".join(islice(iter(partial(stream.read, BUFFER_BYTES), b""), MOST_ROW_BYTES // BUFFER_BYTES + 1))
    size = len(text)
    if size > MOST_ROW_BYTES:
        return f"{member.filename}: found more than {MOST_ROW_BYTES:,} bytes, expected fewer", size
    try:
        content = too_many_values(text) or orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return f"{member.filename}: found text that is not JSON ({error.msg}), expected a sample", size
    if not isinstance(content, dict | str):
        content = f"{member.filename}: found no object, expected a sample"
    return content, size


def _unpacked(file: IO[bytes], member: zipfile.ZipInfo) -> IO[bytes]:
    file.seek(member.header_offset)
    *_, name_size, extra_size = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    file.seek(member.header_offset + _LOCAL_HEADER.size + name_size + extra_size)
    packed = pa.BufferReader(file.read(member.compress_size))
    return io.BufferedReader(pa.CompressedInputStream(packed, "zstd"))


def read_run(sample: Mapping[str, Any], default_model: str) -> dict[str, Any]:
    """Row of one sample. Raises `MisfitError`."""
    messages = sample.get("messages")
    if not isinstance(messages, list) or not messages:
        refuse("messages", messages, "a list of messages")
    if sample.get("id") in (None, ""):
        refuse("id", sample.get("id"), "the sample's id")
    log, output = object_of(sample.get("eval")), object_of(sample.get("output"))
    turns = [
        Turn(found, about)
        for message in objects_of(messages)
        for about in (_about(message),)
        for found in chat_messages([message])
    ]
    model = text_of(log.get("model")) or text_of(output.get("model")) or default_model
    metadata: dict[str, Any] = {"task": text_of(log.get("task")), "trace_id": text_of(sample.get("uuid"))}
    scores = {name: object_of(score).get("value") for name, score in object_of(sample.get("scores")).items()}
    metadata |= {"inspect_scores": scores} if scores else {}
    row = row_of_talk(turns, model, object_of(sample.get("metadata")) | metadata)
    target, epoch = sample.get("target"), count_of("epoch", sample.get("epoch"))
    row["case_id"] = str(sample["id"])
    row |= {"reference": target if isinstance(target, str) else canonical_json(target)} if target else {}
    row["output"] = row["output"] or text_of(output.get("completion")) or ""
    return row | ({"sample_index": epoch - 1} if epoch else {})


def _about(message: Mapping[str, Any]) -> dict[str, Any]:
    return timing(nanoseconds_of("timestamp", message.get("timestamp")), None)
