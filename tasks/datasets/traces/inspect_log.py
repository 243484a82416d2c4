"""Logs of Inspect: `.eval`, a zip of JSON files, and `.json`, all in one document."""

import io
import json
import lzma
import re
import struct
import zipfile
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any

import orjson
import pyarrow as pa

from gradebook.rubrics.model.errors import Fault, OutputsError
from gradebook.rubrics.model.json_values import canonical_json
from gradebook.tasks.datasets.decompression import BUFFER_BYTES, FREE_BYTES, MOST_RATIO, MOST_ROW_BYTES
from gradebook.tasks.datasets.file_formats import Notes, load_json
from gradebook.tasks.datasets.traces.documents import Document, too_many_values
from gradebook.tasks.datasets.traces.fields import (
    MisfitError,
    amount_of,
    count_of,
    entries_of,
    nanoseconds_of,
    object_of,
    objects_of,
    raise_misfit,
    sum_of,
    text_of,
    timing,
)
from gradebook.tasks.datasets.traces.messages import Message, Turn, chat_messages, joined_text, row_of_conversation

_ZSTD = 93  # compression method of a member, which Python reads from 3.14 on
_DAMAGES = (
    *(OSError, zipfile.BadZipFile, NotImplementedError, struct.error, EOFError, RuntimeError),
    *(zlib.error, lzma.LZMAError, UnicodeDecodeError),
)
_COUNTED = ("input_tokens", "output_tokens", "input_tokens_cache_read", "input_tokens_cache_write")
_ATTACHMENT = re.compile("attachment://([0-9A-Za-z]{1,64})")
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


def read_archive(path: Path, notes: Notes) -> Iterator[Document]:
    """Samples of an `.eval` file, one in memory at a time. Raises `OutputsError` for a file that is damaged.

    notes: see `load_json`.
    """
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            header = next(
                (member for member in members if member.filename in ("header.json", "_journal/start.json")), None
            )
            log_header = {} if header is None else _read_member(file, archive, header, Notes())[0]
            log = object_of(log_header.get("eval") if isinstance(log_header, dict) else None)
            samples = [member for member in members if member.filename.startswith("samples/")]
            if len({member.header_offset for member in samples}) < len(samples):
                raise zipfile.BadZipFile("members that overlap")
            left = max(FREE_BYTES, MOST_RATIO * path.stat().st_size)
            for number, member in enumerate(samples, start=1):
                sample, size = _read_member(file, archive, member, notes)
                left -= size
                if left < 0:
                    raise zipfile.BadZipFile(f"members that unpack to more than {MOST_RATIO} times its size")
                content = sample | {"eval": log} if isinstance(sample, dict) else sample
                yield Document(number, content, member.compress_size)
    except _DAMAGES as error:
        message = f"found an Inspect log that can't be read ({error}), expected a whole .eval file"
        raise OutputsError((Fault(str(path), None, message),)) from error


def _read_member(
    file: IO[bytes], archive: zipfile.ZipFile, member: zipfile.ZipInfo, notes: Notes
) -> tuple[dict[str, Any] | str, int]:
    """Object of one member, or the reason why there is none; and its size in bytes."""
    opened = _unpacked(file, member) if member.compress_type == _ZSTD else archive.open(member)
    with opened as stream:
        text = b"".join(islice(iter(partial(stream.read, BUFFER_BYTES), b""), MOST_ROW_BYTES // BUFFER_BYTES + 1))
    size = len(text)
    if size > MOST_ROW_BYTES:
        return f"{member.filename}: found more than {MOST_ROW_BYTES:,} bytes, expected fewer", size
    try:
        content = too_many_values(text) or load_json(text, notes)
    except json.JSONDecodeError as error:
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
        raise_misfit("messages", messages, "a list of messages")
    if sample.get("id") in (None, ""):
        raise_misfit("id", sample.get("id"), "the sample's id")
    log, output = object_of(sample.get("eval")), object_of(sample.get("output"))
    model = text_of(log.get("model")) or text_of(output.get("model")) or default_model
    task = text_of(log.get("task"))
    metadata: dict[str, Any] = {"task": task, "trace_id": text_of(sample.get("uuid"))}
    values = {name: object_of(score).get("value") for name, score in object_of(sample.get("scores")).items()}
    scores = {name: value for name, value in values.items() if value is not None}  # null: NaN, not scored
    metadata |= {"inspect_scores": scores} if scores else {}
    row = row_of_conversation(_turns(sample), model, object_of(sample.get("metadata")) | metadata)
    epoch = count_of("epoch", sample.get("epoch"))
    # Inspect numbers the samples of each task from 1.
    row["case_id"] = f"{task}/{sample['id']}" if task else str(sample["id"])
    target = sample.get("target")
    is_read = isinstance(target, str) or (isinstance(target, list) and all(isinstance(text, str) for text in target))
    row |= {"reference": target if is_read else canonical_json(target)} if target else {}
    row["output"] = row["output"] or text_of(output.get("completion")) or ""
    return row | ({"sample_index": epoch - 1} if epoch else {})


def _turns(sample: Mapping[str, Any]) -> list[Turn]:
    """Messages of a sample with what its events recorded of them, and replies of sub-agents, which are in no message.

    A log without events has the tokens of the whole sample alone: they are the last reply's.
    """
    messages = objects_of(_with_attachments(sample["messages"], object_of(sample.get("attachments"))))
    ids = {message.get("id") for message in messages}
    tool_messages: dict[Any, dict[str, Any]] = {}
    unnamed = deque[dict[str, Any]]()
    other_turns: dict[Any, list[Turn]] = {}  # by the reply before them
    before = None
    for reply, about in _model_calls(sample):
        name = reply.get("id")
        if name is None:
            unnamed.append(about)
        elif name in ids:
            tool_messages[name], before = about, name
        else:
            spoken = {"role": "assistant", "content": joined_text(chat_messages([reply]))}
            other_turns.setdefault(before, []).append(Turn(spoken, about | {"agent": "sub-agent"}))
    tools = _tool_times(sample)
    turns: list[Turn] = []
    for message in messages:
        about = timing(nanoseconds_of("timestamp", message.get("timestamp")), None)
        if message.get("role") == "assistant":
            turns += other_turns.pop(None, ())
            call = tool_messages.pop(message.get("id"), None)
            about |= call if call is not None else unnamed.popleft() if unnamed else {}
        about |= tools.get(message.get("tool_call_id"), {})
        is_silent = "tokens" in about  # a reply that only thought
        turns += [
            Turn(chat_message, about if chat_message["role"] != "tool" or message.get("role") == "tool" else {})
            for chat_message in chat_messages([message]) or ([{"role": "assistant"}] * is_silent)
        ]
        turns += other_turns.pop(message.get("id"), ())
    turns += [turn for rest in other_turns.values() for turn in rest]
    model = text_of(object_of(sample.get("eval")).get("model")) or ""
    total = _usage(object_of(object_of(sample.get("model_usage")).get(model)))
    replies = [index for index, turn in enumerate(turns) if turn.message["role"] == "assistant"]
    if replies and total and not any("tokens" in turn.about for turn in turns):
        turns[replies[-1]] = turns[replies[-1]]._replace(about={**turns[replies[-1]].about, **total})
    if error := text_of(object_of(sample.get("error")).get("message")):  # which ended the sample
        turns.append(Turn({"role": "system"}, {"agent": "inspect", "error": error}))
    return turns


def _model_calls(sample: Mapping[str, Any]) -> Iterator[tuple[Message, dict[str, Any]]]:
    """Replies of models with their times and tokens; those to scorers are not the agent's."""
    scorers: set[Any] = set()
    depth = 0  # of steps of scorers, which older logs have in place of spans
    for event in _events(sample):
        kind, is_scorer = event.get("event"), event.get("type") in ("scorer", "scorers")
        if kind == "span_begin" and (is_scorer or event.get("parent_id") in scorers):
            scorers.add(event.get("id"))
        elif kind == "step" and is_scorer:
            depth += 1 if event.get("action") == "begin" else -1
        elif kind == "model" and depth <= 0 and event.get("span_id") not in scorers:
            output = object_of(event.get("output"))
            about = _times(event) | _usage(object_of(output.get("usage")))
            reply = next(iter(objects_of(output.get("choices"))), {}).get("message")
            if "tokens" in about:
                yield object_of(reply), about


def _tool_times(sample: Mapping[str, Any]) -> dict[Any, dict[str, Any]]:
    """Times of tools by their calls."""
    return {text_of(event.get("id")): _times(event) for event in _events(sample) if event.get("event") == "tool"}


def _events(sample: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Events in order, with those inside others."""
    waiting = objects_of(sample.get("events"))[::-1]
    while waiting:
        yield (event := waiting.pop())
        waiting += objects_of(event.get("events"))[::-1]


def _times(event: Mapping[str, Any]) -> dict[str, Any]:
    begun, ended = (nanoseconds_of(name, event.get(name)) for name in ("timestamp", "completed"))
    worked = amount_of("working_time", event.get("working_time"))
    return timing(begun, ended) | ({"latency_ms": worked * 1_000} if ended is None and worked is not None else {})


def _usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    total = count_of("usage.total_tokens", usage.get("total_tokens"))
    counted = sum_of(*(count_of(f"usage.{name}", usage.get(name)) for name in _COUNTED))
    cost = amount_of("usage.total_cost", usage.get("total_cost"))
    tokens = counted if total is None else total
    return {name: value for name, value in (("tokens", tokens), ("cost_usd", cost)) if value is not None}


def _with_attachments(messages: list[Any], attachments: Mapping[str, Any]) -> Any:
    """Messages with the long texts and pictures that Inspect stores once for a sample."""
    text = orjson.dumps(messages).decode() if attachments else ""
    if "attachment://" not in text:
        return messages
    size = 0

    def content_of(match: re.Match[str]) -> str:
        nonlocal size
        content = attachments.get(match[1])
        if not isinstance(content, str):
            return match[0]
        size += len(content)
        if size > MOST_ROW_BYTES:
            raise MisfitError(f"attachments: found more than {MOST_ROW_BYTES:,} characters, expected fewer")
        return orjson.dumps(content).decode()[1:-1]

    return orjson.loads(_ATTACHMENT.sub(content_of, text))
