"""A random sample of a dataset's cases; the same dataset gives the same sample."""

import heapq
from array import array
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

SEED = 0
_LEAST_RANKS = 2**17  # before repeated ones are dropped


@dataclass(frozen=True, slots=True)
class SampleTaken:
    """A sample of the cases of a dataset, counted in distinct case ids."""

    case_count: int
    dataset_case_count: int

    @property
    def sentence(self) -> str:
        """The sample in words; empty where it has all cases."""
        if self.case_count == self.dataset_case_count:
            return ""
        return f"a random sample of {self.case_count:,} of {self.dataset_case_count:,} cases, seed {SEED}"


class CaseSample:
    """The cases of the lowest ranks among those seen so far.

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

    @property
    def case_ids(self) -> list[str]:
        """The cases of the sample so far."""
        return list(self._row_counts)

    @property
    def row_count(self) -> int:
        """The number of rows of these cases, repeated outputs included."""
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


def _rank(case_id: str) -> int:
    hashed = blake2b(case_id.encode(), digest_size=8, person=b"sample", salt=SEED.to_bytes(8, "big"))
    return int.from_bytes(hashed.digest(), "big")
