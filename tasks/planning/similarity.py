"""Texts that criteria of the method `similarity` compare, and the plan of their vectors."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.methods import BASELINE, PreferenceMethod, SimilarityMethod, compares_with_baseline
from gradebook.rubrics.model.outputs import read_field, reference_answers
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.prompts.media import read_media
from gradebook.rubrics.prompts.prompt import passages_of
from gradebook.tasks.datasets.media import MediaFiles
from gradebook.tasks.judging.prices import BYTES_PER_TOKEN, Usage, cost_usd, embedding_price, prompt_bytes
from gradebook.tasks.judging.replies.embedding_questions import (
    WantedText,
    batches_of,
    embedded_messages,
    embedding_keys,
)
from gradebook.tasks.judging.settings.embedder import EmbedderSettings
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.sql import query
from gradebook.tasks.planning.estimates import BYTES_PER_TOKEN_RANGE, Estimate
from gradebook.tasks.runs.request import BASELINE_WORDS
from gradebook.tasks.system.files import write_parquet
from gradebook.tasks.workspace.folder import RunFolder

Passages = tuple[str, ...]
KEY = "S32"  # dtype of request keys
Keys = NDArray[np.bytes_]
ROWS_AT_ONCE = 2_000  # rows of a shard that are read at once

_BASELINE_OUTPUTS = """
select case_id, list(output order by output_id)
from outputs where output_id in (select output_id from output_scores where run_id = ?) group by case_id
"""


@dataclass(frozen=True, slots=True)
class ComparedTexts:
    """Texts that outputs are compared with: of their rows, or the outputs of a baseline by case."""

    baseline: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def of(self, method: SimilarityMethod, case_id: str, passages: Passages) -> Passages:
        """Texts of one case that are not blank. passages: of the column that it is compared with."""
        if method.against == BASELINE:
            outputs = self.baseline.get(case_id, ())
            texts = outputs if method.field is None else [read_field(text, method.field)[0] for text in outputs]
            return tuple(text for text in texts if text and text.strip())
        if method.separator is None:
            split_answers = reference_answers if method.against == "reference" else lambda text: [text]
            return tuple(answer for passage in passages for answer in split_answers(passage))
        return tuple(
            piece.strip() for passage in passages for piece in passage.split(method.separator) if piece.strip()
        )


def similarity_criteria(rubric: Rubric) -> list[Criterion]:
    """Criteria of the method `similarity`."""
    return [criterion for criterion in rubric.criteria if isinstance(criterion.method, SimilarityMethod)]


def refuse_unnamed_baseline(rubric: Rubric, baseline: str | None) -> None:
    """Raise `InputError` if criteria compare with a baseline that is missing or not named by its run id.

    Similarity may lack a baseline and is then unscored; a preference needs one.
    """
    compared = [criterion for criterion in rubric.criteria if compares_with_baseline(criterion.method)]
    if baseline is None:
        compared = [criterion for criterion in compared if isinstance(criterion.method, PreferenceMethod)]
    if baseline in (*BASELINE_WORDS, None) and compared:
        raise InputError(
            "--baseline", baseline or "none", f"the id of a run: {compared[0].id} compares with its outputs"
        )


def read_compared_texts(lake: Lake, rubric: Rubric, baseline: str | None) -> ComparedTexts:
    """Texts for a rubric's criteria. baseline: run id of the request, or None."""
    if baseline is None or not any(
        compares_with_baseline(criterion.method) for criterion in similarity_criteria(rubric)
    ):
        return ComparedTexts()
    with connect_up_to_date(lake) as connection:
        return ComparedTexts(dict(connection.execute(_BASELINE_OUTPUTS, [baseline]).fetchall()))


class ComparedRow(NamedTuple):
    """Output and the texts that it is compared with; none if it has nothing to be compared with."""

    case_id: str
    output_id: str
    output: str
    passages: Passages


def case_ids_of(shard: str) -> list[str]:
    """Case id of each row."""
    case_ids: list[str] = pq.read_table(shard, columns=["case_id"]).column("case_id").to_pylist()
    return case_ids


def compared_rows(
    method: SimilarityMethod, compared: ComparedTexts, shard: str, case_ids: Iterable[str] | None = None
) -> Iterator[ComparedRow]:
    """Rows of a shard in its order, with placeholders in place of images and sounds. case_ids: only of these."""
    fetch, column = MediaFiles(()).read, method.against
    names = ["case_id", "output_id", "prompt", "output", *([column] if column in ("reference", "context") else [])]
    wanted_ids = None if case_ids is None else pa.array(case_ids, pa.string())
    with pq.ParquetFile(shard) as file:
        for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, columns=names):
            rows = batch if wanted_ids is None else batch.filter(pc.is_in(batch.column("case_id"), wanted_ids))
            values = (rows.column(name).to_pylist() for name in names)
            for case_id, output_id, prompt, output, *extras in zip(*values, strict=True):
                readable = read_media(prompt, output, fetch)
                value = extras[0] if extras else readable.prompt
                text = readable.output if method.field is None else read_field(readable.output, method.field)[0]
                passages = () if column == BASELINE else passages_of(column, value)
                passages = () if text is None else compared.of(method, case_id, passages)
                yield ComparedRow(case_id, output_id, text or "", passages)


@dataclass(frozen=True, slots=True)
class PlannedKeys:
    """Request keys of a shard's texts. passage_counts: (row,), 0 where an output has nothing to be compared with.

    outputs: (compared row,), empty where the output is blank and has no vector. passages: (text,), of all these rows.
    """

    passage_counts: NDArray[np.int64]
    outputs: Keys
    passages: Keys

    @property
    def wanted(self) -> Keys:
        """Sorted keys of the texts that have a vector, without duplicates."""
        return np.setdiff1d(np.concatenate([self.outputs, self.passages]), np.array([b""], KEY))


def plan_keys(rows: Iterable[ComparedRow], embedder_digest: str) -> PlannedKeys:
    """Request keys of a shard's rows."""
    counts, outputs, passages = list[int](), list[str](), list[str]()
    for row in rows:
        counts.append(len(row.passages))
        if row.passages:
            (key,) = embedding_keys(embedder_digest, [row.output]) if row.output.strip() else [""]
            outputs.append(key)
            passages += embedding_keys(embedder_digest, row.passages)
    return PlannedKeys(np.array(counts, np.int64), np.array(outputs, KEY), np.array(passages, KEY))


def write_planned_keys(path: Path, planned: PlannedKeys) -> None:
    """Write the keys of a shard: passage_keys, a list for each row, and output_key, null where the list is empty."""
    counts = planned.passage_counts
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    output_indices = np.where(counts > 0, np.cumsum(counts > 0) - 1, -1)
    outputs = key_column(planned.outputs).take(pa.array(output_indices, mask=output_indices < 0))
    passages = pa.ListArray.from_arrays(offsets, key_column(planned.passages))
    write_parquet(path, pa.table({"output_key": outputs, "passage_keys": passages}))


def read_planned_keys(path: Path) -> PlannedKeys:
    """Keys of a shard as they were planned."""
    table = pq.read_table(path).combine_chunks()
    outputs, passages = (table.column(name) for name in ("output_key", "passage_keys"))
    counts = pc.list_value_length(passages).to_numpy().astype(np.int64)
    return PlannedKeys(counts, _keys(outputs.drop_null()), _keys(pc.list_flatten(passages)))


def _keys(column: pa.ChunkedArray) -> Keys:
    return np.array(column.cast(pa.binary()).to_pylist(), KEY)


def wanted_texts(
    criterion: Criterion, compared: ComparedTexts, shards: Iterable[str], embedder_digest: str, keys: set[str]
) -> Iterator[WantedText]:
    """Texts of the given request keys, in the order of the rows, each once. Removes them from `keys`."""
    for shard in shards if keys else ():
        for row in compared_rows(criterion.method_as(SimilarityMethod), compared, shard):
            texts = (row.output, *row.passages) if row.passages else ()
            for key, text in zip(embedding_keys(embedder_digest, texts), texts, strict=True):
                if key in keys:
                    keys.remove(key)
                    yield WantedText(key, text, row.output_id, criterion.id)


@dataclass(frozen=True, slots=True)
class VectorsCount:
    """Counts of wanted vectors: vectors in the ledger, and requests for the others."""

    replayed_count: int
    request_count: int
    estimate: Estimate


def count_vectors(wanted_count: int, missing: Iterable[WantedText], embedder: EmbedderSettings) -> VectorsCount:
    """Requests for the vectors that the ledger lacks, and their price. wanted_count: all vectors, also stored ones."""
    missing_count = request_count = byte_count = 0
    for question in batches_of(missing, embedder):
        request_count += 1
        missing_count += len(question.texts)
        byte_count += prompt_bytes(embedded_messages(text.text for text in question.texts), None)
    tokens, least, most = (round(byte_count / rate) for rate in (BYTES_PER_TOKEN, *reversed(BYTES_PER_TOKEN_RANGE)))
    price = embedding_price(embedder.asking)
    costs = [cost_usd(price, Usage(count), max(1, request_count)) for count in (tokens, least, most)]
    estimate = Estimate(tokens, 0, 0, *costs)
    return VectorsCount(wanted_count - missing_count, request_count, estimate)


class VectorsPlanner:
    """Counter of requests for vectors, by criterion; a text counts at the first criterion that needs it."""

    def __init__(
        self,
        ledger: duckdb.DuckDBPyConnection,
        folder: RunFolder,
        embedder: EmbedderSettings,
        compared: ComparedTexts,
    ) -> None:
        self._ledger, self._folder, self._embedder, self._compared = ledger, folder, embedder, compared
        self._seen = np.zeros(0, KEY)

    def count(self, criterion: Criterion, shards: Sequence[str]) -> VectorsCount:
        """Write the criterion's request keys to its plan files; returns the requests."""
        digest, keys = self._embedder.digest, np.zeros(0, KEY)
        for index, shard in enumerate(shards):
            planned = plan_keys(compared_rows(criterion.method_as(SimilarityMethod), self._compared, shard), digest)
            write_planned_keys(self._folder.plan_file(criterion.id, index), planned)
            keys = np.union1d(keys, planned.wanted)
        keys = np.setdiff1d(keys, self._seen, assume_unique=True)
        self._seen = np.union1d(self._seen, keys)
        missing = missing_keys(self._ledger, keys)
        texts = wanted_texts(criterion, self._compared, shards, digest, missing)
        return count_vectors(len(keys), texts, self._embedder)


def missing_keys(ledger: duckdb.DuckDBPyConnection, keys: Keys) -> set[str]:
    """Keys that the ledger does not answer. ledger: with the view held_judgments."""
    ledger.register("wanted_keys", pa.table({"request_key": key_column(keys)}))
    missing = {key for (key,) in ledger.execute(query("planning/missing_keys")).fetchall()}
    ledger.unregister("wanted_keys")
    return missing


def key_column(keys: Keys) -> pa.Array:
    """Request keys as a column of texts."""
    return pa.array(keys, pa.binary()).cast(pa.string())
