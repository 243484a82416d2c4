"""Shards cut into blocks of cases, in a random order that a seed repeats."""

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gradebook.rubrics.model.outputs import SHARD_SCHEMA
from gradebook.tasks.datasets.shards import write_shard


def read_units(shards: Sequence[str]) -> dict[str, str]:
    """Sampling unit of each case: its named cluster, or the case itself."""
    units: dict[str, str] = {}
    for shard in shards:
        rows = pq.read_table(shard, columns=["case_id", "cluster"])
        for case_id, cluster in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            if cluster is not None or case_id not in units:
                units[case_id] = f"case {case_id}" if cluster is None else f"cluster {cluster}"
    return units


def shuffle(units: Collection[str], seed: int) -> list[str]:
    """Units in an order that depends on their names and the seed alone. seed: 0 to 2**64 - 1."""
    salt = seed.to_bytes(8, "big")
    return sorted(set(units), key=lambda unit: (blake2b(unit.encode(), digest_size=8, salt=salt).digest(), unit))


def cut_blocks(
    shards: Sequence[str], positions: Mapping[str, int], ends: Sequence[int], folder: Path
) -> tuple[int, ...]:
    """Write shards that each have outputs of one block, in the order of their names; returns the count of each block.

    positions: of each case in the order. ends: the first position after each block; the last is after all.
    Each shard is read once, and leaves at most one file to each block.
    """
    order, places = pa.array(positions, pa.string()), np.fromiter(positions.values(), np.int64)
    counts = np.zeros(len(ends), np.int64)
    folder.mkdir(parents=True)
    for number, path in enumerate(shards):
        shard = pq.read_table(path, schema=SHARD_SCHEMA)
        found = places[pc.index_in(shard.column("case_id"), order).to_numpy()]
        blocks = np.searchsorted(ends, found, side="right")
        for block in np.unique(blocks).tolist():
            write_shard(shard.filter(pa.array(blocks == block)), folder / f"block-{block:04d}-{number:05d}.parquet")
            counts[block] += 1
    return tuple(counts.tolist())
