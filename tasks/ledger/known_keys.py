"""Ledger asked for few keys and often: it is read only where a key may be in it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect, latest_version
from gradebook.tasks.ledger.ledger import held_judgments

_KEYS = """
select distinct try_cast('0x' || request_key[:16] as ubigint) as start
from judgments
where status = 'scored' and start is not null
"""


class KnownKeys:
    """Look-up of judgments for one thread at a time; stores the first 8 bytes of each key of the ledger.

    They are read again after every commit to the lake. A commit in between is met as by any reader: as not yet there.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._version: int | None = None
        self._starts: NDArray[np.uint64] = np.empty(0, np.uint64)

    def __call__(self, keys: list[str]) -> dict[str, dict[str, Any]]:
        """Judgments by key, as `held_judgments`."""
        version = latest_version(self._lake)
        if version != self._version:
            with connect(self._lake, read_only=True) as connection:
                found = connection.execute(_KEYS).to_arrow_table().column("start").to_numpy()
            self._starts, self._version = np.sort(found), version
        starts = np.array([int(key[:16], 16) for key in keys], np.uint64)
        places = np.searchsorted(self._starts, starts)
        is_known = self._starts.take(places, mode="clip") == starts if len(self._starts) else np.zeros(len(keys), bool)
        known = [key for key, is_there in zip(keys, is_known, strict=True) if is_there]
        return held_judgments(self._lake, known) if known else {}
