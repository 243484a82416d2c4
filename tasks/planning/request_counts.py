"""Counts of a plan: votes in the ledger, and requests for the others."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gradebook.tasks.judging.settings.panels import Opinion

# Columns of a plan that are counted. prompt_bytes: of the whole request; is_needed: null if not known yet.
COUNTED_SCHEMA = pa.schema(
    [
        pa.field("output_id", pa.string()),
        pa.field("request_key", pa.string()),
        pa.field("judge_index", pa.int32()),
        pa.field("replicate", pa.int32()),
        pa.field("is_swapped", pa.bool_()),
        pa.field("status", pa.string()),
        pa.field("prompt_bytes", pa.int64()),
        pa.field("is_needed", pa.bool_()),
    ]
)
_NOT, _AT_MOST, _SURELY = 0, 1, 2  # whether a row is asked; _AT_MOST: only if another judge is unsure

States = NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Asked:
    """Number of questions, and the bytes of their prompts."""

    count: int = 0
    prompt_bytes: int = 0


@dataclass(slots=True)
class Tally:
    """Counts of one vote on a criterion while shards are planned.

    question_count: open judgments; request_count: requests, those of batched criteria counted at the first criterion.
    Both include at_most counts, which are asked only if another judge is unsure. prompt_bytes: batched criteria share
    the bytes of their requests equally.
    """

    row_count: int = 0
    replayed_count: int = 0
    open_count: int = 0
    question_count: int = 0
    request_count: int = 0
    prompt_bytes: int = 0
    at_most_count: int = 0  # of the questions
    at_most_requests: int = 0
    at_most_bytes: int = 0

    def add_rows(self, rows: pa.Table) -> None:
        """Count the rows of a shard, as `COUNTED_SCHEMA`; rows in the ledger count only if certainly needed."""
        is_held = rows.column("status").is_valid()
        self.row_count += rows.num_rows
        self.replayed_count += _true_count(pc.and_(is_held, pc.fill_null(rows.column("is_needed"), False)))
        self.open_count += _true_count(pc.and_(pc.invert(is_held), pc.fill_null(rows.column("is_needed"), True)))

    def add_asked(self, surely: Asked, at_most: Asked, place: int, size: int) -> None:
        """Count the requests of a shard. place, size: position of the criterion in its batch, and the batch's size."""
        own_bytes = [asked.prompt_bytes // size + (place < asked.prompt_bytes % size) for asked in (surely, at_most)]
        self.question_count += surely.count + at_most.count
        self.at_most_count += at_most.count
        self.prompt_bytes += sum(own_bytes)
        self.at_most_bytes += own_bytes[1]
        if place == 0:
            self.request_count += surely.count + at_most.count
            self.at_most_requests += at_most.count


Tallies = dict[Opinion, Tally]


def count_asked(pack: Sequence[pa.Table]) -> tuple[Asked, Asked]:
    """Requests for one vote on batched criteria: those that are sent, and those that may be.

    pack: rows of each criterion, as `COUNTED_SCHEMA`; a single criterion may have an output several times. Batched
    criteria are asked whole if one of them is open; equal requests are sent once.
    """
    first = pack[0]
    states = _states(first)
    for other in pack[1:]:
        places = pc.index_in(first.column("output_id"), other.column("output_id").combine_chunks())
        others = pa.array(_states(other)).take(places.combine_chunks())
        states = np.maximum(states, pc.fill_null(others, _NOT).to_numpy())
    columns = {"key": first.column("request_key"), "state": states, "bytes": first.column("prompt_bytes")}
    asked = pa.table(columns).filter(pa.array(states > _NOT))
    grouped = asked.group_by("key").aggregate([("state", "max"), ("bytes", "max")])
    return _asked(grouped, _SURELY), _asked(grouped, _AT_MOST)


def _states(rows: pa.Table) -> States:
    is_open = rows.column("status").is_null().to_numpy()
    is_needed = pc.fill_null(rows.column("is_needed"), True).to_numpy()
    is_known = rows.column("is_needed").is_valid().to_numpy()
    states: States = np.where(is_open & is_needed, np.where(is_known, _SURELY, _AT_MOST), _NOT).astype(np.int8)
    return states


def _asked(grouped: pa.Table, state: int) -> Asked:
    byte_counts = grouped.filter(pc.equal(grouped.column("state_max"), state)).column("bytes_max")
    return Asked(len(byte_counts), pc.sum(byte_counts).as_py() or 0)


def _true_count(flags: pa.ChunkedArray) -> int:
    return pc.sum(flags).as_py() or 0
