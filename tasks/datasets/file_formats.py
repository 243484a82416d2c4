"""File formats of rows, read as streams: JSON Lines, CSV, TSV and Parquet; plain, gzip or zstd.

JSON is read as other programs write it: with NaN, numbers beyond 64 bits and halves of surrogate pairs. Bad rows are
counted, with the limit on their share.
"""

import csv
import json
import math
import re
import shlex
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.rubrics.model.errors import MOST_FAULTS, MOST_FAULTS_SHOWN, Fault, FaultList, OutputsError
from gradebook.rubrics.model.json_values import canonical_json
from gradebook.rubrics.model.outputs import column_faults, describe_value
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.datasets.decompression import (
    BUFFER_BYTES,
    MOST_ROW_BYTES,
    MOST_VALUES,
    batch_rows,
    decoded_rows,
    open_decompressed,
    text_columns,
    value_fault,
)

Notes = Counter[str]  # sentences about rows, and the number of rows that each is true of

NULLED = "with NaN or Infinity, read as null"
KEPT_AS_TEXT = "with a number of more than 64 bits, kept as text"
_ANY_DIGIT_AS_ZERO = bytes.maketrans(b"123456789", b"0" * 9)
_UNSIGNED, _SIGNED = b"0" * 20, b"-" + b"0" * 19  # the shortest numbers that may be beyond 64 bits
# Escapes in turn, so that the second half of a pair, or an escaped backslash, starts none.
_ESCAPES = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>u[dD][89a-fA-F]..)|.)", re.DOTALL)

# What Python reads and `orjson` refuses; other texts are refused by both, the second time slowly.
_UNUSUAL = re.compile(rb"NaN|Infinity|\\u[dD][89a-fA-F]|[0-9][eE][+-]?[0-9]|[0-9]{300}")


def load_json(text: bytes | str, notes: Notes) -> Any:
    """Value of a JSON text. NaN and Infinity are null, and numbers beyond 64 bits are texts of their digits.

    notes: counts this text once under each sentence that is true of it. Raises `json.JSONDecodeError`.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if not _UNUSUAL.search(text if isinstance(text, bytes) else text.encode(errors="replace")):
            raise
        return _load_unusual(text, error, notes)
    return _read_slowly(text, notes) if _has_long_number(text) else value


def _has_long_number(text: bytes | str) -> bool:
    """Whether there may be a number beyond 64 bits, of which `orjson` keeps 17 digits."""
    marks = (text if isinstance(text, bytes) else text.encode()).translate(_ANY_DIGIT_AS_ZERO)
    return _UNSIGNED in marks or _SIGNED in marks


def _load_unusual(raw: bytes | str, error: orjson.JSONDecodeError, notes: Notes) -> Any:
    """Value of a text that `orjson` refuses. Raises its error, or that of half a surrogate pair."""
    try:
        text = raw if isinstance(raw, str) else raw.decode()
        value = _read_slowly(text, read := Notes())
    except (ValueError, RecursionError):
        raise error from None
    half = next((match for match in _ESCAPES.finditer(text) if match["half"]), None)
    if half is not None:
        raise json.JSONDecodeError(f"half of a surrogate pair, \\{half['half']}", text, half.start()) from None
    notes.update(read)
    return value


def _read_slowly(text: bytes | str, notes: Notes) -> Any:
    """Value as Python reads it."""
    read: set[str] = set()
    value = json.loads(
        text,
        parse_constant=lambda _name: read.add(NULLED),
        parse_int=partial(_integer, read),
        parse_float=partial(_float, read),
    )
    notes.update(read)
    return value


def _integer(read: set[str], digits: str) -> int | str:
    if len(digits) <= 20 and -(2**63) <= (value := int(digits)) < 2**64:
        return value
    read.add(KEPT_AS_TEXT)
    return digits


def _float(read: set[str], digits: str) -> float | str:
    value = float(digits)
    if math.isfinite(value):
        return value
    read.add(KEPT_AS_TEXT)
    return digits


Format = Literal["jsonl", "csv", "parquet", "eval"]  # eval: logs of Inspect, which hold no rows
# (path, line, columns found) -> faults
ColumnCheck = Callable[[str, int | None, Iterable[str]], tuple[Fault, ...]]

MOST_DOCUMENT_VALUES = 4_000_000  # of one JSON document
_HEAD_BYTES = 4_096
_WRAPPERS = ("data", "results", "rows")  # usual names of the list of rows in a document
_MOST_KEYS = 8  # shown of an object
_BOM = b"\xef\xbb\xbf"
_DELIMITERS: Mapping[str, str] = {",": "commas", ";": "semicolons", "\t": "tabs"}
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")  # first bytes of gzip and zstd


class RawRow(NamedTuple):
    """One row of a file, or the reason why it can't be parsed."""

    source: str
    line: int  # 1-based; in Parquet the row's number
    format: Format
    content: dict[str, Any] | str  # str: the reason
    text: bytes | str | None  # as in the file; None for formats without text (Parquet)


class Encoding(NamedTuple):
    """Format and compression of a file, by its name."""

    format: Format
    compression: Literal["gzip", "zstd"] | None


_FORMATS: Mapping[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".traj": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".eval": "eval",
}
_COMPRESSIONS: Mapping[str, Literal["gzip", "zstd"]] = {".gz": "gzip", ".zst": "zstd"}


def encoding_of(path: Path) -> Encoding | None:
    """Read format and compression from a file's name; None for an unknown suffix."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compression = _COMPRESSIONS.get(suffixes[-1]) if suffixes else None
    rest = suffixes[:-1] if compression else suffixes
    return Encoding(_FORMATS[rest[-1]], compression) if rest and rest[-1] in _FORMATS else None


def name_without_suffixes(path: Path) -> str:
    """File's name without the suffixes of its format and compression."""
    name = path.name
    for names in (_COMPRESSIONS, _FORMATS):
        if Path(name).suffix.lower() in names:
            name = Path(name).stem
    return name


def read_format(
    path: Path, encoding: Encoding, find_faults: ColumnCheck, notes: Notes | None = None
) -> Iterator[RawRow]:
    """Read the rows of one file. find_faults: checks the header, if the format has one. notes: see `load_json`.

    Raises `OutputsError` if the file as a whole can't be read.
    """
    if encoding.format == "csv":
        return _read_csv(path, encoding, find_faults)
    if encoding.format == "eval":
        raise _fatal(path, None, "found a log of Inspect, expected rows: .jsonl, .csv, .tsv or .parquet")
    if encoding.format == "parquet":
        return _read_parquet(path, encoding, find_faults)
    return _read_json_lines(path, encoding, find_faults, Notes() if notes is None else notes)


def _fatal(path: Path, line: int | None, message: str) -> OutputsError:
    return OutputsError((Fault(str(path), line, message),))


def _unreadable(path: Path, encoding: Encoding, error: OSError) -> OutputsError:
    """Explain a failed read: a damaged stream if the file is compressed, else the system's message."""
    if encoding.compression is None or error.errno is not None:
        return _fatal(path, None, f"found a file that can't be read ({error}), expected outputs")
    cause = f"found a {encoding.compression} stream that is cut off or damaged ({error})"
    return _fatal(path, None, f"{cause}, expected whole {encoding.compression}, as the name says")


def read_lines(path: Path, encoding: Encoding, most_values: int = MOST_VALUES) -> Iterator[bytes]:
    """Lines with their ends, without a byte order mark. Raises `OutputsError` for one with too many values."""
    line_count = 0
    try:
        with open_decompressed(path, encoding.compression) as stream:
            for line in iter(partial(stream.readline, MOST_ROW_BYTES), b""):
                line_count += 1
                if len(line) == MOST_ROW_BYTES:
                    message = f"found a line of {MOST_ROW_BYTES} bytes or more, expected one row a line"
                    raise _fatal(path, line_count, message)
                if (fault := value_fault(line, most_values)) is not None:
                    raise _fatal(path, line_count, f"{fault} in a row")
                yield line.removeprefix(_BOM) if line_count == 1 else line
    except OSError as error:
        raise _unreadable(path, encoding, error) from error


def _decode(path: Path, number: int, line: bytes) -> str:
    if number == 1 and (name := _utf_16(line)):
        raise _fatal(path, number, f"found {name}, expected UTF-8: {_converted(path, name)}")
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        if number == 1 and line.startswith(_PACKED):
            actual = "found a packed file whose name ends neither in .gz nor in .zst"
            raise _fatal(path, number, f"{actual}, expected UTF-8 text") from error
        actual = f"found the byte 0x{line[error.start]:02x} at byte {error.start + 1} of the line"
        hint = f"if it is Windows' encoding, {_converted(path, 'WINDOWS-1252')}"
        raise _fatal(path, number, f"{actual}, expected UTF-8: {hint}") from error


def _utf_16(line: bytes) -> str | None:
    """Name of the encoding if a file that begins with this line is in UTF-16."""
    if line.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16"
    if b"\0" not in line[:2]:  # without a mark, one byte of a first letter is null
        return None
    return "UTF-16BE" if line[0] == 0 else "UTF-16LE"


def _converted(path: Path, encoding: str) -> str:
    """Command that converts a file to UTF-8."""
    unpacked = {"gzip": "gzip -dc", "zstd": "zstd -dc"}.get(_COMPRESSIONS.get(path.suffix.lower(), ""))
    source, target = shlex.quote(str(path)), shlex.quote(f"utf8-{path.stem if unpacked else path.name}")
    convert = f"iconv -f {encoding} -t UTF-8"
    return f"{unpacked} {source} | {convert} > {target}" if unpacked else f"{convert} {source} > {target}"


def read_whole(path: Path, encoding: Encoding) -> bytes | None:
    """Content of a file without a byte order mark; None if it has more than 64 MB."""
    try:
        with open_decompressed(path, encoding.compression) as stream:
            blocks = islice(iter(partial(stream.read, BUFFER_BYTES), b""), MOST_ROW_BYTES // BUFFER_BYTES + 1)
            text = b"".join(blocks)
    except OSError as error:
        raise _unreadable(path, encoding, error) from error
    return None if len(text) > MOST_ROW_BYTES else text.removeprefix(_BOM)


def _read_json_lines(path: Path, encoding: Encoding, find_faults: ColumnCheck, notes: Notes) -> Iterator[RawRow]:
    """Rows of JSON Lines, or of one JSON document: a list, or an object."""
    source = str(path)
    if _begins_list(path, encoding):
        yield from _read_document(path, encoding, find_faults, notes)
        return
    lines = enumerate(read_lines(path, encoding), start=1)
    opening = list(islice((line for line in lines if not line[1].isspace()), 2))
    if opening and _is_document(path, encoding, opening, find_faults):
        yield from _read_document(path, encoding, find_faults, notes)
        return
    for number, line in chain(opening, lines):
        content = (
            None if line == b"\n" else parse_object(path, number, line, notes)
        )  # fast path: a file may have a billion of them
        if content is not None:
            yield RawRow(source, number, "jsonl", content, line)


def _is_document(
    path: Path, encoding: Encoding, opening: Sequence[tuple[int, bytes]], find_faults: ColumnCheck
) -> bool:
    """Whether a file is an object over several lines, or one around a list of rows. opening: up to two of its lines."""
    (number, line), *rest = opening
    first = parse_object(path, number, line, Notes())
    if isinstance(first, dict):
        return not rest and _unwrapped(path, first, find_faults) is not None
    if line.strip() == b"{":
        return True
    try:
        return isinstance(load_json(read_whole(path, encoding) or b"", Notes()), dict)
    except json.JSONDecodeError:
        return False


def _begins_list(path: Path, encoding: Encoding) -> bool:
    try:
        with open_decompressed(path, encoding.compression) as stream:
            return stream.read(_HEAD_BYTES).removeprefix(_BOM).lstrip()[:1] == b"["
    except OSError as error:
        raise _unreadable(path, encoding, error) from error


def _read_document(path: Path, encoding: Encoding, find_faults: ColumnCheck, notes: Notes) -> Iterator[RawRow]:
    """Rows of a file that is one JSON document; their lines are their places in it."""
    text = read_whole(path, encoding)
    if text is None:
        raise _fatal(
            path, None, f"found a JSON document of more than 64 MB, expected one object a line: {_jq('.[]', path)}"
        )
    if (fault := value_fault(text, MOST_DOCUMENT_VALUES)) is not None:
        raise _fatal(path, None, fault)
    try:
        content = load_json(text, notes)
    except json.JSONDecodeError as error:
        _decode(path, 1, text)
        actual = f"found text that is not JSON ({error.msg}, at character {error.colno})"
        hint = f"expected one list, or one object a line, as jq writes several: {_jq('.', path)}"
        raise _fatal(path, error.lineno, f"{actual}, {hint}") from error
    for position, row in enumerate(_rows_of(path, content, find_faults), start=1):
        is_row = isinstance(row, dict)
        reason = f"found {describe_value(row)}, expected one JSON object"
        yield RawRow(str(path), position, "jsonl", row if is_row else reason, None if is_row else canonical_json(row))


def _rows_of(path: Path, content: Any, find_faults: ColumnCheck) -> list[Any]:
    """Rows of a document: of a list its entries, of an object those under a usual name for them, or itself."""
    if isinstance(content, list):
        return content
    if (rows := _unwrapped(path, content, find_faults)) is not None:
        return rows
    lists = dict(_lists_in(content)) if find_faults(str(path), None, content) else {}
    if not lists:
        return [content]
    longest = max(lists, key=lambda path_in_file: lists[path_in_file])
    keys = ", ".join(list(content)[:_MOST_KEYS])
    ways = (
        f"if the {counted(lists[longest], 'object')} at {longest} are the rows, {_jq(f'{longest}[]', path)}",
        f"if it is one row, {_jq('.', path)}",
        "if it is a trace, --from FORMAT",
    )
    actual = f"found one JSON document, an object with the keys {keys}"
    raise _fatal(path, None, f"{actual}, expected rows: a list of objects, or one object a line; {'; '.join(ways)}")


def _unwrapped(path: Path, content: Any, find_faults: ColumnCheck) -> list[Any] | None:
    """List of rows that an object has under a usual name for it; None for an object that is a row, or has none."""
    while isinstance(content, dict) and find_faults(str(path), None, content):
        content = next((content[name] for name in _WRAPPERS if isinstance(content.get(name), dict | list)), None)
    is_rows = isinstance(content, list) and content and all(isinstance(row, dict) for row in content)
    return content if is_rows else None


def _lists_in(content: dict[str, Any], place: str = "") -> Iterator[tuple[str, int]]:
    """Lists of objects in an object and in its own objects, as jq names them, with their lengths."""
    for name, value in content.items():
        inner = f"{place}.{name}" if name.isidentifier() and name.isascii() else f"{place}.{json.dumps(name)}"
        if isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
            yield inner, len(value)
        elif isinstance(value, dict) and not place:
            yield from _lists_in(value, inner)


def _jq(select: str, path: Path) -> str:
    """Command that writes what jq selects of a file as JSON Lines."""
    return f"jq -c {shlex.quote(select)} {shlex.quote(str(path))} > rows.jsonl"


def parse_object(path: Path, number: int, line: bytes, notes: Notes) -> dict[str, Any] | str | None:
    """Object of a line, or the reason why it is none; None for a blank line. notes: see `load_json`."""
    try:
        content = load_json(line, notes)
    except json.JSONDecodeError as error:
        if not line.strip():
            return None
        _decode(path, number, line)
        character = min(error.pos, len(error.doc.rstrip())) + 1
        return f"found text that is not JSON ({error.msg}, at character {character}), expected one JSON object"
    if type(content) is not dict:
        return f"found {describe_value(content)}, expected one JSON object"
    return content


class _TextLines:
    """Lines of a CSV file as text; `taken` collects the lines since it was last cleared."""

    def __init__(self, path: Path, encoding: Encoding) -> None:
        self._path, self._encoding, self._taken_bytes = path, encoding, 0
        self.taken: list[str] = []

    def __iter__(self) -> Iterator[str]:
        for number, line in enumerate(read_lines(self._path, self._encoding), start=1):
            text = _decode(self._path, number, line)
            self.taken.append(text)
            self._taken_bytes = len(line) + (self._taken_bytes if len(self.taken) > 1 else 0)
            if self._taken_bytes > MOST_ROW_BYTES:
                begin = number - len(self.taken) + 1
                message = f"found a row of more than {MOST_ROW_BYTES} bytes, expected every quote closed"
                raise _fatal(self._path, begin, message)
            yield text


def _read_records(path: Path, encoding: Encoding, delimiter: str) -> Iterator[tuple[int, list[str] | str, str]]:
    """CSV records: first line, cells (or the reason why there are none), text."""
    lines = _TextLines(path, encoding)
    csv.field_size_limit(MOST_ROW_BYTES)
    records = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        begin = records.line_num + 1
        lines.taken.clear()
        cells: list[str] | str
        try:
            cells = next(records)
        except StopIteration:
            return
        except csv.Error as error:
            # A quote that spans line ends may have swallowed good rows, so this is more than one bad row.
            if records.line_num > begin or "end of data" in str(error):
                message = f"found quotes unclosed by line {records.line_num} ({error})"
                raise _fatal(
                    path, begin, f'{message}, expected every quote closed and "" for a quote inside'
                ) from error
            cells = f"found a row that is not CSV ({error}), expected cells with {_DELIMITERS[delimiter]} between"
        text = "".join(lines.taken)
        if cells and not text.isspace():
            yield begin, cells, text


def _delimiter_of(path: Path, encoding: Encoding) -> str:
    """Delimiter of a CSV file: the one that gives its header the most cells; the comma on ties.

    Spreadsheets write semicolons where the comma is the decimal mark, and tabs under either suffix.
    """
    header = next((line for line in read_lines(path, encoding) if line.strip()), b"").decode(errors="replace")
    return max(_DELIMITERS, key=lambda delimiter: _cell_count(header, delimiter))


def _cell_count(header: str, delimiter: str) -> int:
    try:
        return len(next(csv.reader([header], delimiter=delimiter, strict=True), []))
    except csv.Error:
        return 0


def _read_csv(path: Path, encoding: Encoding, find_faults: ColumnCheck) -> Iterator[RawRow]:
    records = _read_records(path, encoding, _delimiter_of(path, encoding))
    first = next(records, None)
    if first is None:
        return
    line, header, _ = first
    if isinstance(header, str):
        raise _fatal(path, line, header)
    if faults := find_faults(str(path), line, header):
        raise OutputsError(faults)
    source, width = str(path), len(header)
    for line, cells, text in records:
        if isinstance(cells, str):
            yield RawRow(source, line, "csv", cells, text)
        elif len(cells) != width:
            yield RawRow(
                source, line, "csv", f"found {counted(len(cells), 'cell')}, expected {width} as in the header", text
            )
        else:
            yield RawRow(source, line, "csv", dict(zip(header, cells, strict=True)), text)


def _read_parquet(path: Path, encoding: Encoding, find_faults: ColumnCheck) -> Iterator[RawRow]:
    source, row_count = str(path), 0
    try:
        with _seekable(path, encoding) as file:
            texts = text_columns(pq.read_metadata(file).schema)
            with pq.ParquetFile(file, read_dictionary=texts) as parquet:
                if faults := find_faults(source, None, parquet.schema_arrow.names):
                    raise OutputsError(faults)
                batches = parquet.iter_batches(batch_size=batch_rows(path, parquet.metadata))
                for row_count, content in enumerate(decoded_rows(path, batches), start=1):
                    yield RawRow(source, row_count, "parquet", content, None)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        message = f"found a Parquet file that can't be read after row {row_count} ({error}), expected a whole one"
        raise _fatal(path, None, message) from error


def _seekable(path: Path, encoding: Encoding) -> IO[bytes]:
    """Open a Parquet file. It is read from its end, so a compressed one is unpacked to an unnamed temporary file."""
    if encoding.compression is None:
        return path.open("rb")
    unpacked = tempfile.TemporaryFile()  # noqa: SIM115  # the caller closes it
    try:
        with open_decompressed(path, encoding.compression) as stream:
            while block := stream.read(BUFFER_BYTES):
                unpacked.write(block)
    except OSError as error:
        unpacked.close()
        raise _unreadable(path, encoding, error) from error
    except BaseException:
        unpacked.close()
        raise
    unpacked.seek(0)
    return unpacked


LEAST_ROW_BYTES = {"csv": 4, "jsonl": 20}  # no good row is shorter


@dataclass(slots=True)
class BadRows:
    """Counter of bad rows with the limit on their share."""

    files: Sequence[Path]
    max_bad_rate: float
    store: Callable[[RawRow, str], None]  # gets each bad row with its reason
    column_map: Mapping[str, str] | None = None  # of a dataset, whose rows may all lack a column
    count: int = 0
    byte_count: int = 0  # of the bad rows
    is_hopeless: bool = False  # the share of bad rows is above the limit, whatever follows
    faults: list[Fault] = field(default_factory=list)
    columns: dict[str, None] = field(default_factory=dict)  # of the bad rows, in order of appearance

    def add(self, raw: RawRow, reason: str) -> None:
        self.count += 1
        self.byte_count += len(raw.text or "")
        self.store(raw, reason)
        if isinstance(raw.content, dict) and not raw.content.keys() <= self.columns.keys():
            self.columns.update(dict.fromkeys(raw.content))
        if len(self.faults) < MOST_FAULTS_SHOWN - 1:  # one line is for the summary
            self.faults.append(Fault(raw.source, raw.line, reason))
        if self.count % MOST_FAULTS == 0:
            self.is_hopeless = self._are_too_many()

    def raise_if_too_many(self, row_count: int) -> None:
        bad_count = self.count
        if bad_count < row_count and bad_count / row_count <= self.max_bad_rate:
            return
        source = str(self.files[0]) if self.files else "outputs"
        if bad_count == row_count and self.column_map is not None and self.columns:
            # Said of each row, a missing column would be a page of faults without the columns that there are.
            faults = FaultList(OutputsError)
            faults.add(column_faults(source, None, self.columns, self.column_map))
            faults.raise_any()
        more = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        name = f"{source}{more}"
        first = "the first " if self.is_hopeless else ""
        actual = f"found {bad_count} of {first}{row_count} rows that do not fit" if row_count else "found no rows"
        limit = f"expected at most a share of {self.max_bad_rate:g} (--max-bad-rate)"
        expected = limit if bad_count < row_count else "expected outputs"
        raise OutputsError((Fault(name, None, f"{actual}, {expected}"), *self.faults))

    def _are_too_many(self) -> bool:
        """Whether the share is above the limit, even if the rest of the files were the shortest good rows.

        Unknown of packed files and Parquet, whose rows may take fewer.
        """
        encodings = [encoding_of(file) for file in self.files]
        if any(
            encoding is None or encoding.compression or encoding.format not in LEAST_ROW_BYTES for encoding in encodings
        ):
            return False
        least = min(LEAST_ROW_BYTES[encoding.format] for encoding in encodings if encoding)
        rest = max(sum(file.stat().st_size for file in self.files) - self.byte_count, 0)
        return self.count / (self.count + rest / least) > self.max_bad_rate
