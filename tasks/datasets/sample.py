"""Random choices among a dataset's cases, repeatable by a seed: a sample, of all or by stratum, and blocks of cases."""

import heapq
from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.json_values import canonical_json
from gradebook.rubrics.model.outputs import OUTPUT_COLUMNS, SHARD_SCHEMA
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.datasets.shards import write_shard

SEED = 0
LEAST_CASES = 2  # of a stratum: fewer have no variance
NO_STRATUM = "(none)"  # stratum of cases without a value
CASE_WEIGHTS_SCHEMA = pa.schema(
    [pa.field("case_id", pa.string()), pa.field("stratum", pa.string()), pa.field("inclusion_rate", pa.float64())]
)
_LEAST_RANKS = 2**17  # before repeated ones are dropped
_MOST_LISTED_STRATA = 5


@dataclass(frozen=True, slots=True)
class StratumTaken:
    """Cases of a stratum in the sample and in the dataset."""

    stratum: str
    case_count: int
    dataset_case_count: int


@dataclass(frozen=True, slots=True)
class SampleTaken:
    """A sample of the cases of a dataset, counted in distinct case ids. column: its values are the strata."""

    case_count: int
    dataset_case_count: int
    column: str | None = None
    strata: tuple[StratumTaken, ...] = ()

    @property
    def sentence(self) -> str:
        """The sample in words; empty where it has all cases, without strata."""
        sample = f"a random sample of {self.case_count:,} of {self.dataset_case_count:,} cases"
        if self.column is None:
            return "" if self.case_count == self.dataset_case_count else f"{sample}, seed {SEED}"
        few = [
            f"{taken_stratum.stratum} ({counted(taken_stratum.dataset_case_count, 'case')})"
            for taken_stratum in self._few
        ]
        named_strata = ", ".join(few[:_MOST_LISTED_STRATA]) + (
            f" and {len(few) - _MOST_LISTED_STRATA:,} more" if few[_MOST_LISTED_STRATA:] else ""
        )
        lacking = f"; too few cases for a variance of their own: {named_strata}" if few else ""
        strata = counted(len(self.strata), "stratum", "strata")
        return f"{sample} by {self.column} ({strata}), seed {SEED}; means are weighted by stratum{lacking}"

    @property
    def _few(self) -> list[StratumTaken]:
        return [stratum for stratum in self.strata if stratum.case_count < LEAST_CASES]


class CaseSample:
    """Cases with the lowest ranks among all cases so far.

    A case's rank is a hash of its id with the seed. The sample depends on nothing else, neither the order of the rows
    nor their content, and a larger one contains a smaller one. Memory: the sample's case ids, and 8 to 16 bytes a case
    of the dataset.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._worst_first: list[tuple[int, str]] = []  # heap of (-rank, case_id)
        self._row_counts: dict[str, int] = {}
        self._ranks, self._most_ranks = array("Q"), _LEAST_RANKS

    def take(self, case_id: str) -> bool:
        """Count a row of a case; whether the case is in the sample so far."""
        if case_id in self._row_counts:
            self._row_counts[case_id] += 1
            return True
        rank = _rank(case_id)
        self._note(rank)
        if len(self._worst_first) < self._size:
            heapq.heappush(self._worst_first, (-rank, case_id))
        else:
            _, displaced = heapq.heappushpop(self._worst_first, (-rank, case_id))
            if displaced == case_id:
                return False
            del self._row_counts[displaced]
        self._row_counts[case_id] = 1
        return True

    def shrink(self, size: int) -> None:
        """Drop the cases of the highest ranks beyond this size."""
        while len(self._worst_first) > size:
            _, displaced = heapq.heappop(self._worst_first)
            del self._row_counts[displaced]

    @property
    def ranks(self) -> "array[int]":
        """Ranks of all cases of the dataset so far, each once."""
        self._drop_repeated_ranks()
        return self._ranks

    @property
    def case_ids(self) -> list[str]:
        """The cases of the sample so far."""
        return list(self._row_counts)

    @property
    def row_count(self) -> int:
        """Number of rows of these cases, with repeated outputs."""
        return sum(self._row_counts.values())

    @property
    def taken(self) -> SampleTaken:
        """The counts of the sample so far."""
        self._drop_repeated_ranks()
        return SampleTaken(len(self._row_counts), len(self._ranks))

    def _note(self, rank: int) -> None:
        self._ranks.append(rank)
        if len(self._ranks) >= self._most_ranks:
            self._drop_repeated_ranks()
            self._most_ranks = max(_LEAST_RANKS, 2 * len(self._ranks))

    def _drop_repeated_ranks(self) -> None:
        self._ranks = array("Q", np.unique(np.array(self._ranks, dtype=np.uint64)).tobytes())


class Draw:
    """Draw of cases, from all or with a share of each stratum. A stratum is a value of a metadata column.

    Each stratum has at least `LEAST_CASES` cases, or all of a smaller one; the others are shared out in proportion to
    its cases in the dataset. Within a stratum the cases are those of `CaseSample`.
    """

    def __init__(self, size: int, column: str | None = None, column_map: Mapping[str, str] | None = None) -> None:
        """column_map: gradebook's column -> the file's, which faults name."""
        self._size, self._column, self._column_map = size, column, column_map or {}
        self._strata: dict[str, CaseSample] = {}

    def take(self, case_id: str, metadata: str | None) -> bool:
        """Count a row of a case; whether the case may be in the sample so far. metadata: of the row, as JSON.

        Raises `InputError` if there are more strata than cases to draw.
        """
        stratum = NO_STRATUM if self._column is None else stratum_of(metadata, self._column)
        if stratum not in self._strata:
            if len(self._strata) == self._size:
                raise self._too_many(f"more than {self._size:,} strata")
            self._strata[stratum] = CaseSample(self._size)
        return self._strata[stratum].take(case_id)

    def close(self) -> SampleTaken:
        """End the draw: keep each stratum's share of the cases, and return the counts.

        Raises `InputError` if no row has the column, a case is in two strata, or there are too few cases to draw for
        each stratum.
        """
        if self._column is None:
            cases = self._strata.get(NO_STRATUM)
            return SampleTaken(0, 0) if cases is None else cases.taken
        ranks = {name: self._strata[name].ranks for name in sorted(self._strata)}
        sizes = {name: len(stratum_ranks) for name, stratum_ranks in ranks.items()}
        if list(sizes) == [NO_STRATUM]:
            mapped = next((column for column, name in self._column_map.items() if name == self._column), None)
            if mapped is not None or self._column in OUTPUT_COLUMNS:
                which = "" if mapped is None else f"which --map makes {mapped}, "
                actual = f"{self._column}, {which}one of gradebook's own columns ({', '.join(OUTPUT_COLUMNS)})"
                raise InputError("--stratify", actual, "another column of the file, or a metadata key")
            actual = f"no row with the column or metadata key {self._column!r}"
            raise InputError("--stratify", actual, "one of the file")
        self._refuse_shared(ranks)
        least = sum(min(LEAST_CASES, size) for size in sizes.values())
        if least > self._size:
            raise self._too_many(f"{len(sizes):,} strata")
        counts = share_out(self._size, sizes)
        for name, count in counts.items():
            self._strata[name].shrink(count)
        strata = tuple(StratumTaken(name, counts[name], size) for name, size in sizes.items())
        return SampleTaken(sum(counts.values()), sum(sizes.values()), self._column, strata)

    @property
    def case_ids(self) -> list[str]:
        """The cases of the sample so far."""
        return [case_id for cases in self._strata.values() for case_id in cases.case_ids]

    @property
    def row_count(self) -> int:
        """Number of rows of these cases, with repeated outputs."""
        return sum(cases.row_count for cases in self._strata.values())

    def weights(self, taken: SampleTaken) -> pa.Table:
        """Stratum and inclusion rate of each case, as `CASE_WEIGHTS_SCHEMA`."""
        rows = [
            {
                "case_id": case_id,
                "stratum": taken_stratum.stratum,
                "inclusion_rate": taken_stratum.case_count / taken_stratum.dataset_case_count,
            }
            for taken_stratum in taken.strata
            for case_id in sorted(self._strata[taken_stratum.stratum].case_ids)
        ]
        return pa.Table.from_pylist(rows, schema=CASE_WEIGHTS_SCHEMA)

    def _too_many(self, actual: str) -> InputError:
        expected = f"at most {self._size // LEAST_CASES:,}, of {LEAST_CASES} cases each, or a larger --sample"
        return InputError(f"--stratify {self._column}", actual, expected)

    def _refuse_shared(self, ranks: Mapping[str, "array[int]"]) -> None:
        owners: dict[int, str] = {}
        for name, stratum_ranks in ranks.items():
            for rank in stratum_ranks:
                if owners.setdefault(rank, name) != name:
                    values = f"{owners[rank]!r} and {name!r}"
                    cases = [case_id for case_id in self._strata[name].case_ids if _rank(case_id) == rank]
                    example = f"case {cases[0]}" if cases else "a case"
                    raise InputError(f"--stratify {self._column}", f"{example} with {values}", "one value a case")


def share_out(size: int, case_counts: Mapping[str, int]) -> dict[str, int]:
    """Number of cases to draw from each stratum: in proportion to its cases, with at least `LEAST_CASES` where it can.

    case_counts: cases of each stratum, 1 or more. The result adds up to the size, or to all cases. Fractions go to the
    largest remainders, then by name.
    """
    size = min(size, sum(case_counts.values()))
    fixed: dict[str, int] = {}
    while True:
        rest = size - sum(fixed.values())
        open_counts = {name: count for name, count in case_counts.items() if name not in fixed}
        total = sum(open_counts.values())
        small = {
            name: min(LEAST_CASES, count)
            for name, count in open_counts.items()
            if rest * count < min(LEAST_CASES, count) * total
        }
        if not small:
            break
        fixed |= small
    shares = {name: rest * count // total for name, count in open_counts.items()}
    by_remainder = sorted(open_counts, key=lambda name: (-(rest * open_counts[name] % total), name))
    for name in by_remainder[: rest - sum(shares.values())]:
        shares[name] += 1
    return {name: fixed.get(name, shares.get(name, 0)) for name in case_counts}


def stratum_of(metadata: str | None, column: str) -> str:
    """Value of a metadata key as a text, `(none)` without one. metadata: JSON object."""
    value = orjson.loads(metadata).get(column) if metadata else None
    if value is None:
        return NO_STRATUM
    return value if isinstance(value, str) else canonical_json(value)


def _rank(case_id: str) -> int:
    hashed = blake2b(case_id.encode(), digest_size=8, person=b"sample", salt=SEED.to_bytes(8, "big"))
    return int.from_bytes(hashed.digest(), "big")


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
    order, case_positions = pa.array(positions, pa.string()), np.fromiter(positions.values(), np.int64)
    counts = np.zeros(len(ends), np.int64)
    folder.mkdir(parents=True)
    for number, path in enumerate(shards):
        shard = pq.read_table(path, schema=SHARD_SCHEMA)
        row_positions = case_positions[pc.index_in(shard.column("case_id"), order).to_numpy()]
        blocks = np.searchsorted(ends, row_positions, side="right")
        for block in np.unique(blocks).tolist():
            write_shard(shard.filter(pa.array(blocks == block)), folder / f"block-{block:04d}-{number:05d}.parquet")
            counts[block] += 1
    return tuple(counts.tolist())
