"""Vectors of texts by an endpoint: collected in a file without a name, looked up by the texts' request keys."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gradebook.tasks.judging.replies.embedding_questions import VALUE_BYTES, embedding_keys, vector_bytes
from gradebook.tasks.judging.replies.question import Outcome
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.sql import query
from gradebook.tasks.planning.similarity import KEY, Keys, key_column

VECTORS_AT_ONCE = 10_000  # read from the ledger


class VectorFile:
    """Vectors as they come, on disk while the block runs; keys and the reasons of failed requests in memory."""

    def __init__(self, folder: Path | None = None) -> None:
        """folder: of the file, which has no name there; None: the system's for such files."""
        self._folder, self._open = folder, ExitStack()
        self._files: dict[int, IO[bytes]] = {}  # by the bytes of a vector
        self._keys: dict[int, list[Keys]] = {}
        self.faults: dict[str, str] = {}  # reason by request key

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files; a space's vectors stay until it goes."""
        self._open.close()

    @property
    def keys(self) -> Keys:
        """Keys of all vectors, (key,), each once and in their own order."""
        return np.unique(np.concatenate([np.zeros(0, KEY), *(part for of in self._keys.values() for part in of)]))

    def add_held(self, lake: Lake, keys: Keys) -> None:
        """Add the vectors that the ledger has. keys: (key,), of the wanted ones, each once."""
        with connect_up_to_date(lake) as connection:
            connection.execute("create or replace temp view held_judgments as select * from judgments")
            connection.register("wanted_keys", pa.table({"request_key": key_column(keys)}))
            for batch in connection.execute(query("scoring/held_vectors")).to_arrow_reader(VECTORS_AT_ONCE):
                found, vectors = np.array(batch.column("request_key").to_pylist(), KEY), batch.column("vector")
                sizes = np.diff(np.frombuffer(vectors.buffers()[1], np.int32)[vectors.offset :][: len(found) + 1])
                for size in np.unique(sizes).tolist():
                    is_such = sizes == size
                    such = vectors if is_such.all() else vectors.filter(pa.array(is_such))
                    self._add(found[is_such], such.buffers()[2], size)

    def add_outcomes(self, outcomes: Mapping[str, Outcome]) -> None:
        """Add the vectors of new replies, or the reasons why there are none. outcomes: by request key."""
        for key, outcome in outcomes.items():
            if outcome.rationale is None or outcome.status != "scored":
                said = (outcome.reason or "no reply", outcome.rationale)
                self.faults[key] = ": ".join(each for each in said if each)
                continue
            self.faults.pop(key, None)
            vector = vector_bytes(outcome.rationale)
            self._add(np.array([key], KEY), vector, len(vector))

    def _add(self, keys: Keys, vectors: Any, size: int) -> None:
        if size not in self._files:
            self._files[size] = self._open.enter_context(TemporaryFile(dir=self._folder))  # noqa: SIM115 - closed at the end
            self._keys[size] = []
        self._files[size].write(memoryview(vectors)[: len(keys) * size])
        self._keys[size].append(keys)

    def space(self, embedder_digest: str) -> "StoredVectors":
        """Space of the vectors that have the most frequent length; the others are left out."""
        counts = {size: sum(map(len, parts)) for size, parts in self._keys.items()}
        if not counts:
            return StoredVectors(embedder_digest, np.zeros(0, KEY), np.zeros((0, 1), np.int16), self.faults)
        size = max(counts, key=counts.__getitem__)
        file, shape = self._files[size], (counts[size], size // VALUE_BYTES)
        file.flush()
        vectors = np.memmap(file, np.dtype("<i2"), "r", shape=shape)
        return StoredVectors(embedder_digest, np.concatenate(self._keys[size]), np.asarray(vectors), self.faults)


class StoredVectors:
    """Vectors of texts as 16-bit floats, found by the texts' request keys."""

    def __init__(
        self,
        embedder_digest: str,
        keys: Keys,
        vectors: NDArray[np.int16],
        faults: Mapping[str, str],
    ) -> None:
        """keys: (vector,), the first of equal ones counts. vectors: (vector, dim), bits of 16-bit floats."""
        self._digest, self._vectors, self._faults = embedder_digest, vectors, faults
        self._keys, self._places = np.unique(keys, return_index=True)

    def vectors(self, texts: Sequence[str] | Keys) -> NDArray[np.float32]:
        """(text, dim), see `Space`. texts: the texts or their request keys."""
        keys = texts if isinstance(texts, np.ndarray) else np.array(embedding_keys(self._digest, texts), KEY)
        if not len(self._keys):
            return np.zeros((len(texts), self._vectors.shape[1]), np.float32)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        found = read_halves(self._vectors[self._places[at]])
        lengths = np.sqrt(np.einsum("ij,ij->i", found, found))  # not quite 1, as 16 bits round
        is_there = (self._keys[at] == keys) & (lengths > 0)
        found *= np.divide(1, lengths, out=np.zeros_like(lengths), where=is_there)[:, np.newaxis]
        return found

    def fault(self, text: str | bytes) -> str | None:
        """Reason of the reply that gave no vector. text: the text or its request key, both empty if it is blank."""
        if not text.strip():
            return None
        key = text.decode() if isinstance(text, bytes) else embedding_keys(self._digest, [text])[0]
        at = np.searchsorted(self._keys, np.array([key], KEY))
        if (self._keys[at[at < len(self._keys)]] == key.encode()).any():
            return None
        other = f"found a vector of another length than {self._vectors.shape[1]}"
        return f"no_embedding: {self._faults.get(key, other)}"


def read_halves(halves: NDArray[np.int16]) -> NDArray[np.float32]:
    """Values of 16-bit floats, given by their bits and finite; a third faster than numpy's conversion.

    Sign, exponent and mantissa move to their places in 32 bits; the product adds the difference of the exponents.
    """
    bits = halves.astype(np.int32)
    bits <<= 13
    bits &= np.int32(-0x70002000)  # without the copies of the sign
    found = bits.view(np.float32)
    found *= np.float32(2.0**112)
    return found
