"""A file's traces as rows, if it holds some."""

import gc
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson

from gradebook.rubrics.importers.guessing import Candidate, only_candidate
from gradebook.rubrics.model.errors import Fault, OutputsError
from gradebook.rubrics.model.steps import MOST_STEPS
from gradebook.tasks.datasets.file_formats import Encoding, Notes, RawRow, name_without_suffixes
from gradebook.tasks.datasets.traces import (
    TRACE_FORMATS,
    atif,
    claude_code,
    codex,
    inspect_log,
    langfuse,
    langsmith,
    mlflow,
    otlp,
    swe_agent,
)
from gradebook.tasks.datasets.traces.documents import Document, Part, begins_with, grouped, read_documents
from gradebook.tasks.datasets.traces.fields import MisfitError, object_of
from gradebook.tasks.datasets.traces.messages import Turn
from gradebook.tasks.datasets.traces.spans import Span, in_order, row_of_spans

_NEW_OBJECTS = 50_000  # between two searches for cyclic garbage
_MOST_REMARKS = 100  # objects before the first of a session
_LONGEST_PREVIEW = 2_000  # characters of a part in the quarantine
# Keys of which a file of traces has one in its first megabyte. Files of rows, which have none, are not read twice.
_MARKS = (
    *(b'"resourceSpans"', b'"resourceLogs"', b'"samples"', b'"messages"', b'"schema_version"', b'"observations"'),
    *(b'"traceId"', b'"batches"', b'"traceID"', b'"trace_id"', b'"run_type"', b'"info"', b'"sessionId"'),
    *(b'"leafUuid"', b'"history"'),
    *(b'"file-history-snapshot"', b'"response_item"', b'"session_meta"', b'"trajectory"', b'"trajectory_format"'),
)


class _Format(NamedTuple):
    """Format of traces: detection by a file's first object, and conversion of its objects to rows."""

    sign: str  # keys that indicate the format
    matches: Callable[[Mapping[str, Any]], bool]
    read: Callable[["_File", Iterable[Document]], Iterator[RawRow]]


class _File(NamedTuple):
    """Source of rows."""

    source: str
    model: str  # of traces without a model

    def of(self, source: str | None) -> "_File":
        """The file that a part comes from. source: None for this one."""
        return self if source is None else self._replace(source=source)

    def row(self, line: int, content: dict[str, Any] | str, of: Any) -> RawRow:
        """Row of the file. of: content that the quarantine shows if the row does not fit."""
        return RawRow(self.source, line, "jsonl", content, _preview(of) if isinstance(content, str) else None)


def _preview(of: Any) -> str:
    """Beginning of a part that does not fit, for the quarantine."""
    if isinstance(of, str):
        return of[:_LONGEST_PREVIEW]
    try:
        return orjson.dumps(of, default=str)[:_LONGEST_PREVIEW].decode(errors="replace")
    except orjson.JSONEncodeError:  # it nests too deep
        return ", ".join(map(str, of))[:_LONGEST_PREVIEW]


def read_traces(
    path: Path,
    encoding: Encoding,
    trace_format: str | None = None,
    model: str | None = None,
    notes: Notes | None = None,
    others: Mapping[Path, Encoding] = MappingProxyType({}),
    samples: Counter[tuple[str, ...]] | None = None,
) -> Iterator[RawRow] | None:
    """Rows of a file's traces, one for each run of an agent; None if its first object is of no format of traces.

    trace_format: one of names.TRACE_FORMATS; found by the first object by default. Spans and runs that can't be read
    become rows with the reason; the others of their trace are read. model: of runs that name none, by default the
    file's name. notes: see `load_json`. others: further files of the same runs. samples: runs of each case so
    far, in earlier files too. Raises `OutputsError` for a file that is damaged, not of the format that is named, or of
    several formats.
    """
    if trace_format is None and encoding.format != "eval" and not begins_with(path, encoding, _MARKS):
        return None
    notes = Notes() if notes is None else notes
    candidates = _FORMATS if trace_format is None else {trace_format: _FORMATS[trace_format]}
    first, form = _opening(path, read_archive_or_lines(path, encoding, Notes()), candidates.values())
    if first is not None and form is None and trace_format is not None:
        keys = ", ".join(list(object_of(first.content))[:8])
        message = f"found an object with the keys {keys}, expected traces of {trace_format}"
        raise OutputsError((Fault(str(path), first.line, message),))
    if form is None:
        return None
    file = _File(str(path), model or name_without_suffixes(path))
    documents = chain(
        read_archive_or_lines(path, encoding, notes),
        (
            document._replace(source=str(other))
            for other, of in others.items()
            for document in read_documents(other, of, notes)
        ),
    )
    rows = _with_rare_gc(_numbered(form.read(file, documents), Counter() if samples is None else samples))
    return rows if trace_format is not None else _with_note(rows, form, notes)


def _with_note(rows: Iterator[RawRow], form: _Format, notes: Notes) -> Iterator[RawRow]:
    """Rows of a format that was detected by the content, with a note of the sign."""
    name = next(name for name, trace_format in _FORMATS.items() if trace_format is form)
    for row in rows:
        notes[f"read as traces of {name}, found by {form.sign} (--from)"] += 1
        yield row


def files_of_subagents(encodings: Mapping[Path, Encoding]) -> dict[Path, dict[Path, Encoding]]:
    """Files of sub-agents by the file of their Claude Code session, if both exist."""
    sessions = {name_without_suffixes(path): path for path in encodings}
    files: dict[Path, dict[Path, Encoding]] = {}
    for path, encoding in encodings.items():
        if not path.name.startswith("agent-") or encoding.format != "jsonl":
            continue
        first, form = _opening(path, read_documents(path, encoding, Notes()), [_FORMATS["claude-code"]])
        session = object_of(first.content).get("sessionId") if first and form else None
        if isinstance(session, str) and session in sessions:
            files.setdefault(sessions[session], {})[path] = encoding
    return files


def _opening(
    path: Path, documents: Iterable[Document], forms: Collection[_Format]
) -> tuple[Document | None, _Format | None]:
    """First object of a file, and the format of its traces. Raises `OutputsError` if several formats fit.

    Sessions of Claude Code may begin with typed lines about the program, which name no session.
    """
    first = None
    for document in islice(documents, _MOST_REMARKS):
        if isinstance(document.content, str):
            continue
        first = first or document
        form = _only_match(path, document.content, forms)
        if form is not None or not isinstance(document.content.get("type"), str) or "output" in document.content:
            return first, form
    return first, None


def _only_match(path: Path, first: Mapping[str, Any], forms: Collection[_Format]) -> _Format | None:
    """Format of an object. Raises `OutputsError` if several formats fit."""
    fitting = {
        name: trace_format
        for name, trace_format in _FORMATS.items()
        if trace_format in forms and trace_format.matches(first)
    }
    chosen = only_candidate(
        str(path),
        "--from",
        [Candidate(name, trace_format.sign) for name, trace_format in fitting.items()],
        OutputsError,
    )
    return fitting[chosen.name] if chosen else None


def _with_rare_gc(rows: Iterator[RawRow]) -> Iterator[RawRow]:
    """Rows, read with few searches for cyclic garbage: traces have many objects and no cycles."""
    before = gc.get_threshold()
    gc.set_threshold(_NEW_OBJECTS, *before[1:])
    try:
        yield from rows
    finally:
        gc.set_threshold(*before)


def read_archive_or_lines(path: Path, encoding: Encoding, notes: Notes) -> Iterator[Document]:
    """Objects of a file, or samples of an `.eval` file."""
    return inspect_log.read_archive(path, notes) if encoding.format == "eval" else read_documents(path, encoding, notes)


def _numbered(rows: Iterator[RawRow], counts: Counter[tuple[str, ...]]) -> Iterator[RawRow]:
    """Rows with a sample_index for repeated runs of a case. counts: by case and model."""
    for raw in rows:
        if isinstance(raw.content, dict) and "sample_index" not in raw.content:
            key = tuple(str(raw.content.get(name)) for name in ("case_id", "model", "checkpoint"))
            if counts[key]:
                raw = raw._replace(content={**raw.content, "sample_index": counts[key]})  # noqa: PLW2901
            counts[key] += 1
        yield raw


def _parts(
    file: _File,
    documents: Iterable[Document],
    split: Callable[[Mapping[str, Any], int, int], Iterator[Part | str]],
) -> Iterator[Part | RawRow]:
    """Parts of all documents, and rows with the reason for documents without any."""
    counts: Counter[str] = Counter()
    for document in documents:
        of = file.of(document.source)
        if isinstance(document.content, str):
            yield of.row(document.line, document.content, document.content)
            continue
        try:
            for part in split(document.content, document.line, document.size):
                if isinstance(part, str):
                    yield of.row(document.line, part, document.content)
                    continue
                counts[part.trace_id] += 1
                if not part.trace_id:
                    yield of.row(part.line, "found no id of a trace, expected one", part.content)
                elif counts[part.trace_id] > MOST_STEPS:
                    yield of.row(part.line, f"found a trace of more than {MOST_STEPS:,} spans", part.content)
                else:
                    yield part._replace(source=document.source) if document.source else part
        except (MisfitError, orjson.JSONEncodeError) as error:
            yield of.row(document.line, str(error), document.content)


def _parts_reader(
    split: Callable[[Mapping[str, Any], int, int], Iterator[Part | str]],
    read_part: Callable[[Mapping[str, Any]], Any],
    rows_of: Callable[["_File", str, Part, list[tuple[Part, Any]]], Iterator[RawRow]],
    join: Callable[[Sequence[Part]], Sequence[Part]] = tuple,
) -> Callable[["_File", Iterable[Document]], Iterator[RawRow]]:
    """Reader of a format whose spans come in any order.

    rows_of: rows of a trace, from its first part and the readable parts, each with its parsed content. join: joins
    the parts of a trace that belong together.
    """

    def read(file: _File, documents: Iterable[Document]) -> Iterator[RawRow]:
        for entry in grouped(_parts(file, documents, split)):
            if isinstance(entry, RawRow):
                yield entry
                continue
            trace_id, parts = entry
            good = []
            for part in join(parts):
                try:
                    good.append((part, read_part(part.content)))
                except (MisfitError, orjson.JSONEncodeError) as error:
                    yield file.of(part.source).row(part.line, str(error), part.content)
            if good:
                yield from rows_of(file, trace_id, parts[0], good)

    return read


def _spans_reader(form: Any) -> Callable[[_File, Iterable[Document]], Iterator[RawRow]]:
    return _parts_reader(form.parts, form.read_span, _rows_of_spans)


def _rows_of_spans(file: _File, trace_id: str, first: Part, read: list[tuple[Part, Span]]) -> Iterator[RawRow]:
    """Row of a trace, and the reason for each span that does not fit."""
    ordered = in_order([span for _, span in read])
    part_of_span = {id(span): part for part, span in read}
    for span, reason in ordered.misfits:
        yield file.row(part_of_span[id(span)].line, reason, part_of_span[id(span)].content)
    if ordered.spans:
        yield _row(file, first, partial(row_of_spans, trace_id, ordered, file.model))


def _rows_of_session(
    file: _File, session_id: str, first: Part, read: list[tuple[Part, list[Turn]]]
) -> Iterator[RawRow]:
    yield _row(file, first, partial(claude_code.row_of_session, session_id, read, file.model))


def _row(file: _File, first: Part, make: Callable[[], dict[str, Any]]) -> RawRow:
    """Row of a trace, or the reason for a missing one."""
    try:
        return file.row(first.line, make(), None)
    except orjson.JSONEncodeError as error:
        return file.row(first.line, f"found values that can't be kept as JSON ({error})", first.content)


def _read_rollouts(file: _File, documents: Iterable[Document]) -> Iterator[RawRow]:
    """Rows of sessions of Codex, and the reason for each unreadable line."""
    for lines in codex.sessions(documents):
        of = file.of(lines[0].source)
        yield from (
            of.row(document.line, document.content, document.content)
            for document in lines
            if isinstance(document.content, str)
        )
        good = [document for document in lines if not isinstance(document.content, str)]
        if good:
            try:
                content: dict[str, Any] | str = codex.row_of_session(good, file.model)
            except MisfitError as error:
                content = str(error)
            yield of.row(good[0].line, content, good[0].content)


def _runs_reader(
    form: Any, split: Callable[[Document], Iterator[Document]]
) -> Callable[[_File, Iterable[Document]], Iterator[RawRow]]:
    """Reader of a format with a whole run in one object."""

    def read(file: _File, documents: Iterable[Document]) -> Iterator[RawRow]:
        for document in chain.from_iterable(map(split, documents)):
            if isinstance(document.content, str):
                yield file.row(document.line, document.content, document.content)
                continue
            try:
                content: dict[str, Any] | str = form.read_run(document.content, file.model)
            except (MisfitError, orjson.JSONEncodeError) as error:
                content = str(error)
            yield file.row(document.line, content, document.content)

    return read


def _as_one(document: Document) -> Iterator[Document]:
    yield document


def _samples(document: Document) -> Iterator[Document]:
    if isinstance(document.content, dict) and inspect_log.matches(document.content):
        return inspect_log.samples_of(document.content, document.line, document.size)
    return _as_one(document)


def _is_inspect(first: Mapping[str, Any]) -> bool:
    return inspect_log.matches(first) or ("messages" in first and isinstance(first.get("eval"), dict))


_FORMATS: Mapping[str, _Format] = dict(
    zip(
        TRACE_FORMATS,
        (
            _Format("spans", otlp.matches, _parts_reader(otlp.parts, otlp.read_span, _rows_of_spans, otlp.with_logs)),
            _Format("eval and samples", _is_inspect, _runs_reader(inspect_log, _samples)),
            _Format("schema_version", atif.matches, _runs_reader(atif, _as_one)),
            _Format("observations", langfuse.matches, _spans_reader(langfuse)),
            _Format("run_type and inputs", langsmith.matches, _spans_reader(langsmith)),
            _Format("info and data", mlflow.matches, _spans_reader(mlflow)),
            _Format(
                "sessionId",
                claude_code.matches,
                _parts_reader(claude_code.parts, claude_code.read_line, _rows_of_session),
            ),
            _Format("type and payload", codex.matches, _read_rollouts),
            _Format("trajectory", swe_agent.matches, _runs_reader(swe_agent, _as_one)),
        ),
        strict=True,
    )
)
