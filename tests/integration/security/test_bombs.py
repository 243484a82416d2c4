"""Small files that stand for very much: refused in a sentence, in bounded memory, before they fill anything."""

import gzip
import json
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradebook.rubrics.model.errors import OutputsError, RatingsError
from gradebook.tasks.datasets import decompression as unpacking
from gradebook.tasks.datasets.decompression import value_fault
from gradebook.tasks.datasets.file_formats import encoding_of, read_format
from gradebook.tasks.ratings.import_sheets import read_rating_rows
from tests.support.bounded import bounded_work
from tests.support.nightly import nightly

ROW = {"case_id": "c", "model": "m", "output": "x" * 1_000}
LINE = json.dumps(ROW).encode() + b"\n"
LEAST_MEMORY = 3 * 2**30  # of addresses: Arrow's pools and the threads' stacks are most of it


def read_all(path: Path) -> int:
    """How many rows there are."""
    encoding = encoding_of(path)
    assert encoding is not None
    return sum(1 for _ in read_format(path, encoding, lambda *_: ()))


def packed(path: Path, content: bytes, count: int) -> Path:
    compression = "gzip" if path.suffix == ".gz" else "zstd"
    with pa.CompressedOutputStream(str(path), compression) as file:
        for _ in range(count):
            file.write(content)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.jsonl.gz", LINE * 1_000),
        *nightly(
            [
                ("rows.jsonl.zst", LINE * 1_000),
                ("rows.csv.zst", b"case_id,model,output\n" + b"c,m,o\n" * 100_000),
                ("rows.parquet.gz", bytes(2**20)),
                ("one_line.json.zst", b" " * 2**20),
            ]
        ),
    ],
)
def test_a_packed_file_of_a_thousandfold_is_given_up_soon(tmp_path, monkeypatch, name, content):
    monkeypatch.setattr(unpacking, "FREE_BYTES", 2**22)  # 2**26 in truth
    path = packed(tmp_path / name, content, 100)
    with pytest.raises(OutputsError, match="packed bytes that stand for more than .* give the file unpacked") as caught:
        read_all(path)
    assert name in str(caught.value)


def test_a_packed_file_that_packs_well_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "FREE_BYTES", 2**16)
    lines = b"".join(
        json.dumps(ROW | {"case_id": f"{index * 7919 % 10_007}"}).encode() + b"\n" for index in range(2_000)
    )
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(lines))
    assert len(lines) > 50 * (tmp_path / "rows.jsonl.gz").stat().st_size
    assert read_all(tmp_path / "rows.jsonl.gz") == 2_000


def dictionary_file(path: Path, row_count: int, text: str, column: str = "output") -> Path:
    """A Parquet file that holds one long text once, and says so of every row."""
    values = pa.DictionaryArray.from_arrays(pa.array([0] * row_count, pa.int32()), pa.array([text]))
    if column == "prompt":
        values = pa.ListArray.from_arrays(pa.array(range(row_count + 1), pa.int32()), values)
    table = pa.table({"case_id": ["c"] * row_count, column: values})
    pq.write_table(table, path, compression="zstd", store_schema=False)
    return path


@pytest.mark.parametrize("column", ["output", "prompt"])
def test_a_parquet_file_of_one_text_for_all_rows_is_refused(tmp_path, column):
    path = dictionary_file(tmp_path / "rows.parquet", 20_000, "x" * 5_000_000, column)
    assert path.stat().st_size < 100_000  # for 100 GB of rows
    with bounded_work(), pytest.raises(OutputsError, match=r"a Parquet file of .* bytes whose rows take .* and more"):
        read_all(path)


@pytest.mark.nightly
def test_a_parquet_row_that_is_too_long_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "FREE_BYTES", 2**30)  # else it is refused for its few bytes
    path = dictionary_file(tmp_path / "rows.parquet", 1, "x" * (2**26 + 1))
    with pytest.raises(OutputsError, match="found a row of .* bytes, expected at most 67,108,864"):
        read_all(path)


@pytest.mark.nightly
def test_a_parquet_file_of_a_billion_numbers_is_refused_by_its_own_count(tmp_path):
    ends = pa.array([0, 30_000_000], pa.int32())
    numbers = pa.ListArray.from_arrays(ends, pa.nulls(30_000_000, pa.int64()))
    pq.write_table(pa.table({"case_id": ["c"], "steps": numbers}), tmp_path / "rows.parquet")
    with pytest.raises(OutputsError, match="a Parquet file of .* bytes whose rows take"):
        read_all(tmp_path / "rows.parquet")


def test_long_texts_of_a_parquet_file_come_back_as_they_went_in(tmp_path):
    texts = [letter * 6_000_000 for letter in "abcabc"]  # 36 MB: written out in pieces of at most 16
    rows = [
        {"output": text, "prompt": [{"role": "user", "content": text[:3]}], "k": index}
        for index, text in enumerate(texts)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    encoding = encoding_of(tmp_path / "rows.parquet")
    assert [row.content for row in read_format(tmp_path / "rows.parquet", encoding, lambda *_: ())] == rows


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv"])
def test_a_row_without_an_end_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.setattr("gradebook.tasks.datasets.file_formats.MOST_ROW_BYTES", 2**16)  # 2**26 in truth
    begun = b'{"a": "' if name == "rows.jsonl" else b"case_id,model,output\n" + b'"a\n' * 9_000
    path = tmp_path / name
    path.write_bytes(begun + (b"x" * 2**17 if name == "rows.jsonl" else b'"a\nb",' * 20_000))
    with pytest.raises(OutputsError, match=r"rows\.(jsonl:1|csv:\d+): found "):
        read_all(path)


@pytest.mark.nightly
def test_a_bomb_ends_in_bounded_memory(tmp_path):
    packed(tmp_path / "rows.jsonl.gz", b'{"a": "' + b"x" * 2**22, 64)  # 256 MB
    code = (
        "import sys; from pathlib import Path; from gradebook.tasks.datasets.file_formats import *;"
        "p = Path(sys.argv[1]);"
        "list(read_format(p, encoding_of(p), lambda *a: ()))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "rows.jsonl.gz"],
        preexec_fn=partial(resource.setrlimit, resource.RLIMIT_AS, (LEAST_MEMORY, LEAST_MEMORY)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "OutputsError" in ended.stderr and "MemoryError" not in ended.stderr, ended.stderr


# -------- many values in few bytes
@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv"])
@pytest.mark.parametrize("values", [b"{},", b'"\\"",', *nightly([b"0,", b'"",'])])
def test_a_row_of_millions_of_values_is_refused(tmp_path, name, values):
    (tmp_path / name).write_bytes(b'{"case_id": "a", "x": [' + values * 1_100_000 + b"0]}\n")
    with pytest.raises(OutputsError, match=r":1: found more than 1,000,000 values, expected fewer in a row"):
        read_all(tmp_path / name)


def test_commas_and_brackets_within_a_text_are_no_values(tmp_path):
    text = '{"a": [1, 2]}, "quoted\\" ' * 200_000
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROW | {"output": text}) + "\n", encoding="utf-8")
    assert read_all(tmp_path / "rows.jsonl") == 1


def test_a_text_without_an_end_is_looked_at_once():
    with bounded_work():
        assert value_fault(b'"' + b'\\",' * 10_000_000) is None


def test_entries_of_a_parquet_file_s_lists_count_as_objects(tmp_path):
    flags = pa.array([[True] * 3_000_000], pa.list_(pa.bool_()))  # 375 KB; 96 MB of references and more
    pq.write_table(pa.table({"case_id": ["a"], "flags": flags}), tmp_path / "rows.parquet")
    with pytest.raises(OutputsError, match="found a row of .* bytes, expected at most"):
        read_all(tmp_path / "rows.parquet")


def test_packed_ratings_have_the_bounds_of_packed_outputs(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "FREE_BYTES", 2**20)  # 2**26 in truth
    (tmp_path / "ratings.json.gz").write_bytes(gzip.compress(b'[{"x": [' + b"0," * 2**22 + b"0]}]"))
    with pytest.raises(RatingsError, match="packed bytes that stand for more than"):
        list(read_rating_rows(tmp_path / "ratings.json.gz")[1])


@pytest.mark.nightly
def test_a_json_file_of_ratings_has_a_bound_of_values(tmp_path):
    (tmp_path / "ratings.json").write_bytes(b'[{"x": [' + b"0," * 5_100_000 + b"0]}]")
    with pytest.raises(RatingsError, match="found more than 5,000,000 values, expected fewer, or JSON Lines"):
        list(read_rating_rows(tmp_path / "ratings.json")[1])
