"""A file's traces as rows, if it holds some."""

import gc
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson

from gradebook.rubrics.model.errors import Fault, OutputsError
from gradebook.rubrics.model.steps import MOST_STEPS
from gradebook.tasks.datasets.file_formats import Encoding, RawRow, name_without_suffixes
from gradebook.tasks.datasets.json_texts import Notes
from gradebook.tasks.datasets.traces import atif, claude_code, inspect_log, langfuse, langsmith, mlflow, otlp
from gradebook.tasks.datasets.traces.documents import Document, begins_with, read_documents
from gradebook.tasks.datasets.traces.fields import MisfitError, object_of
from gradebook.tasks.datasets.traces.grouping import Part, grouped
from gradebook.tasks.datasets.traces.names import TRACE_FORMATS
from gradebook.tasks.datasets.traces.spans import Span, in_order, row_of_spans
from gradebook.tasks.datasets.traces.talks import Turn

_NEW_OBJECTS = 50_000  # between two searches for cyclic garbage
_MOST_REMARKS = 100  # objects before the first of a session
_MOST_SHOWN = 2_000  # characters of a part in the quarantine
# Keys of which a file of traces has one in its first megabyte. Files of rows, which have none, are not read twice.
_MARKS = (
    *(b'"resourceSpans"', b'"samples"', b'"messages"', b'"schema_version"', b'"observations"', b'"traceId"'),
    *(b'"batches"', b'"traceID"', b'"trace_id"', b'"run_type"', b'"info"', b'"sessionId"', b'"leafUuid"'),
    b'"file-history-snapshot"',
)


class _Format(NamedTuple):
    """A format of traces: how a file of it is told by its first object, and how its objects become rows."""

    matches: Callable[[Mapping[str, Any]], bool]
    read: Callable[["_File", Iterable[Document]], Iterator[RawRow]]


class _File(NamedTuple):
    """A file as its rows name it."""

    source: str
    model: str  # of traces that name none

    def of(self, source: str | None) -> "_File":
        """The file that a part comes from. source: None for this one."""
        return self if source is None else self._replace(source=source)

    def row(self, line: int, content: dict[str, Any] | str, of: Any) -> RawRow:
        """A row; of: what the quarantine shows if it does not fit."""
        return RawRow(self.source, line, "jsonl", content, _shown(of) if isinstance(content, str) else None)


def _shown(of: Any) -> str:
    """Beginning of a part that does not fit, for the quarantine."""
    if isinstance(of, str):
        return of[:_MOST_SHOWN]
    try:
        return orjson.dumps(of, default=str)[:_MOST_SHOWN].decode(errors="replace")
    except orjson.JSONEncodeError:  # it nests too deep
        return ", ".join(map(str, of))[:_MOST_SHOWN]


def read_traces(
    path: Path,
    encoding: Encoding,
    trace_format: str | None = None,
    model: str | None = None,
    notes: Notes | None = None,
    others: Mapping[Path, Encoding] = MappingProxyType({}),
) -> Iterator[RawRow] | None:
    """Rows of a file's traces, one for each run of an agent; None if its first object is of no format of traces.

    trace_format: one of names.TRACE_FORMATS; found by the first object by default. Spans and runs that can't be read
    become rows with the reason; the others of their trace are read. model: of runs that name none, by default the
    file's name. notes: see `load_json`. others: further files of the same runs. Raises `OutputsError` for a file that
    is damaged, or not of the format that is named.
    """
    if trace_format is None and encoding.format != "eval" and not begins_with(path, encoding, _MARKS):
        return None
    notes = Notes() if notes is None else notes
    wanted = _FORMATS if trace_format is None else {trace_format: _FORMATS[trace_format]}
    first, form = _opening(read_archive_or_lines(path, encoding, Notes()), wanted.values())
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
    return _rarely_collected(_numbered(form.read(file, documents)))


def files_of_subagents(encodings: Mapping[Path, Encoding]) -> dict[Path, dict[Path, Encoding]]:
    """Files of sub-agents by the file of their session of Claude Code, for those of which both are there."""
    sessions = {name_without_suffixes(path): path for path in encodings}
    found: dict[Path, dict[Path, Encoding]] = {}
    for path, encoding in encodings.items():
        if not path.name.startswith("agent-") or encoding.format != "jsonl":
            continue
        first, form = _opening(read_documents(path, encoding, Notes()), [_FORMATS["claude-code"]])
        session = object_of(first.content).get("sessionId") if first and form else None
        if isinstance(session, str) and session in sessions:
            found.setdefault(sessions[session], {})[path] = encoding
    return found


def _opening(documents: Iterable[Document], forms: Collection[_Format]) -> tuple[Document | None, _Format | None]:
    """The first object of a file, and the format of its traces.

    Sessions of Claude Code may begin with typed lines about the program, which name no session.
    """
    first = None
    for document in islice(documents, _MOST_REMARKS):
        if isinstance(document.content, str):
            continue
        first = first or document
        form = next((each for each in forms if each.matches(document.content)), None)
        if form is not None or not isinstance(document.content.get("type"), str) or "output" in document.content:
            return first, form
    return first, None


def _rarely_collected(rows: Iterator[RawRow]) -> Iterator[RawRow]:
    """Rows, read with few searches for cyclic garbage: traces have many objects and no cycles."""
    before = gc.get_threshold()
    gc.set_threshold(_NEW_OBJECTS, *before[1:])
    try:
        yield from rows
    finally:
        gc.set_threshold(*before)


def read_archive_or_lines(path: Path, encoding: Encoding, notes: Notes) -> Iterator[Document]:
    """Objects of a file: of an `.eval` file its samples."""
    return inspect_log.read_archive(path, notes) if encoding.format == "eval" else read_documents(path, encoding, notes)


def _numbered(rows: Iterator[RawRow]) -> Iterator[RawRow]:
    """Rows with a sample_index where the same case was tried again."""
    counts: Counter[tuple[str, ...]] = Counter()
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
    """Parts of all documents, and rows with the reason for those that have none."""
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


def _of_parts(
    split: Callable[[Mapping[str, Any], int, int], Iterator[Part | str]],
    read_part: Callable[[Mapping[str, Any]], Any],
    rows_of: Callable[["_File", str, Part, list[tuple[Part, Any]]], Iterator[RawRow]],
) -> Callable[["_File", Iterable[Document]], Iterator[RawRow]]:
    """Reader of a format whose traces are strewn over the file.

    rows_of: rows of a trace, from its first part and those that could be read, each with what was read.
    """

    def read(file: _File, documents: Iterable[Document]) -> Iterator[RawRow]:
        for found in grouped(_parts(file, documents, split)):
            if isinstance(found, RawRow):
                yield found
                continue
            trace_id, parts = found
            good = []
            for part in parts:
                try:
                    good.append((part, read_part(part.content)))
                except (MisfitError, orjson.JSONEncodeError) as error:
                    yield file.of(part.source).row(part.line, str(error), part.content)
            if good:
                yield from rows_of(file, trace_id, parts[0], good)

    return read


def _of_spans(form: Any) -> Callable[[_File, Iterable[Document]], Iterator[RawRow]]:
    return _of_parts(form.parts, form.read_span, _rows_of_spans)


def _rows_of_spans(file: _File, trace_id: str, first: Part, read: list[tuple[Part, Span]]) -> Iterator[RawRow]:
    """Row of a trace, and the reason for each span that has no place in it."""
    ordered = in_order([span for _, span in read])
    parts = {id(span): part for part, span in read}
    for span, reason in ordered.misfits:
        yield file.row(parts[id(span)].line, reason, parts[id(span)].content)
    if ordered.spans:
        yield _row(file, first, partial(row_of_spans, trace_id, ordered, file.model))


def _rows_of_session(
    file: _File, session_id: str, first: Part, read: list[tuple[Part, list[Turn]]]
) -> Iterator[RawRow]:
    yield _row(file, first, partial(claude_code.row_of_session, session_id, read, file.model))


def _row(file: _File, first: Part, make: Callable[[], dict[str, Any]]) -> RawRow:
    """Row of a trace, or the reason why there is none."""
    try:
        return file.row(first.line, make(), None)
    except orjson.JSONEncodeError as error:
        return file.row(first.line, f"found values that can't be kept as JSON ({error})", first.content)


def _of_runs(
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


def _whole(document: Document) -> Iterator[Document]:
    yield document


def _samples(document: Document) -> Iterator[Document]:
    if isinstance(document.content, dict) and inspect_log.matches(document.content):
        return inspect_log.samples_of(document.content, document.line, document.size)
    return _whole(document)


def _is_inspect(first: Mapping[str, Any]) -> bool:
    return inspect_log.matches(first) or ("messages" in first and isinstance(first.get("eval"), dict))


_FORMATS: Mapping[str, _Format] = dict(
    zip(
        TRACE_FORMATS,
        (
            _Format(otlp.matches, _of_spans(otlp)),
            _Format(_is_inspect, _of_runs(inspect_log, _samples)),
            _Format(atif.matches, _of_runs(atif, _whole)),
            _Format(langfuse.matches, _of_spans(langfuse)),
            _Format(langsmith.matches, _of_spans(langsmith)),
            _Format(mlflow.matches, _of_spans(mlflow)),
            _Format(claude_code.matches, _of_parts(claude_code.parts, claude_code.read_line, _rows_of_session)),
        ),
        strict=True,
    )
)
