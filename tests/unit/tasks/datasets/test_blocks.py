"""Blocks of cases: their order and their files."""

import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.rubrics.model.outputs import SHARD_SCHEMA
from gradebook.tasks.datasets.sample import cut_blocks, read_units, shuffle

UNITS = [f"case {number}" for number in range(50)]


def write_shards(folder, *shards):
    paths = []
    for number, rows in enumerate(shards):
        columns = {"case_id": [row[0] for row in rows], "cluster": [row[1] for row in rows]}
        columns["output_id"] = [f"{number}-{place}" for place in range(len(rows))]
        columns |= {"model": ["m"] * len(rows), "output": ["Hello."] * len(rows), "sample_index": [0] * len(rows)}
        arrays = [pa.array(columns.get(field.name, [None] * len(rows)), field.type) for field in SHARD_SCHEMA]
        pq.write_table(pa.table(arrays, schema=SHARD_SCHEMA), folder / f"{number}.parquet")
        paths.append(str(folder / f"{number}.parquet"))
    return paths


def test_the_order_depends_on_the_seed_and_the_names_alone():
    assert shuffle(UNITS, 1) == shuffle(reversed(UNITS), 1) != shuffle(UNITS, 2)
    assert sorted(shuffle(UNITS, 2**64 - 1)) == sorted(UNITS)


def test_cases_of_a_cluster_are_one_unit(tmp_path):
    shards = write_shards(tmp_path, [("a", "x"), ("b", "x")], [("c", None), ("b", None)])
    assert read_units(shards) == {"a": "cluster x", "b": "cluster x", "c": "case c"}


def test_each_output_is_in_the_block_of_its_case(tmp_path):
    shards = write_shards(tmp_path, [("a", None), ("b", None), ("c", None)], [("c", None), ("a", None)])
    counts = cut_blocks(shards, {"c": 0, "a": 1, "b": 2}, [1, 2, 3], tmp_path / "blocks")
    found = [
        pq.read_table(path, columns=["output_id"])[0].to_pylist() for path in sorted((tmp_path / "blocks").iterdir())
    ]
    assert counts == (2, 2, 1)
    assert found == [["0-2"], ["1-0"], ["0-0"], ["1-1"], ["0-1"]]
