"""Verdicts on criteria of the method `similarity`: outputs beside their own texts and those of other cases."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.model.methods import SimilarityMethod
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.verdicts import verdict_table
from gradebook.rubrics.statistics.similarity import Counts, Similarities, compare_vectors, starts_of, zero_rows
from gradebook.tasks.judging.settings.embedder import LEXICAL
from gradebook.tasks.planning.similarity import (
    ComparedRow,
    ComparedTexts,
    Passages,
    PlannedKeys,
    case_ids_of,
    compared_rows,
    read_planned_keys,
    similarity_of,
)
from gradebook.tasks.scoring.embeddings import MakeSpace, Space, lexical_space
from gradebook.tasks.scoring.stored_vectors import StoredVectors
from gradebook.tasks.system.files import write_parquet
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import Timing

SIMILARITY_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in ("run_id", "output_id", "criterion_id")),
        pa.field("similarity", pa.float64(), nullable=False),
        pa.field("null_similarity", pa.float64()),
        pa.field("other_case_count", pa.int64(), nullable=False),
        pa.field("embedder", pa.string(), nullable=False),
    ]
)
MOST_OTHERS = 200  # cases to compare with: the null's standard error is then below 1/14 of their spread
FEWEST_OTHERS = 5
BATCH = 500  # outputs


@dataclass(frozen=True, slots=True)
class _Others:
    """Cases that every output is compared with."""

    places: Mapping[str, int]  # by case id
    starts: Counts  # (case,), the first text of each
    texts: Any  # (text, dim), their vectors
    space: Space

    @classmethod
    def among(cls, passages: Mapping[str, Passages], make_space: MakeSpace) -> Self:
        """Cases by id, each with at least one text; those with a text without a vector are left out."""
        space = make_space([text for each in passages.values() for text in each])
        usable = {case_id: each for case_id, each in passages.items() if not any(map(space.fault, each))}
        texts = [text for each in usable.values() for text in each]
        places = {case_id: place for place, case_id in enumerate(usable)}
        return cls(places, starts_of([*usable.values()]), space.vectors(texts), space)


class OtherCases:
    """Other cases of a run, for each column that is compared with; found once for all shards."""

    def __init__(
        self,
        shards: Sequence[str] = (),
        make_space: MakeSpace = lexical_space,
        compared: ComparedTexts | None = None,
        embedder: str = LEXICAL,
    ) -> None:
        """compared: texts that outputs are compared with. embedder: name of what gives the vectors."""
        self._shards, self._lock = tuple(shards), Lock()
        self._make_space, self.compared, self.embedder = make_space, compared or ComparedTexts(), embedder
        self._found: dict[tuple[str, str | None], _Others] = {}

    def of(self, method: SimilarityMethod) -> _Others:
        """Up to 200 cases, the same in every run over the same cases; those with an empty column are left out."""
        key = method.against, method.separator
        with self._lock:
            if key not in self._found:
                chosen = dict(sorted(self._passages(method).items()))
                self._found[key] = _Others.among(chosen, self._make_space)
            return self._found[key]

    def _passages(self, method: SimilarityMethod) -> dict[str, Passages]:
        """Texts of up to 200 cases, each of its first row that has any, in the order in which cases are drawn."""
        drawn = sorted(set().union(*map(case_ids_of, self._shards)), key=_drawn)
        first, size = 0, 2 * MOST_OTHERS  # most cases have a text
        found: dict[str, Passages] = {}
        while first < len(drawn) and len(found) < MOST_OTHERS:
            tried = drawn[first : first + size]
            read: dict[str, Passages] = {}
            for shard in self._shards:
                for row in compared_rows(method, self.compared, shard, set(tried).difference(read)):
                    if row.passages:
                        read.setdefault(row.case_id, row.passages)
            found |= {case_id: read[case_id] for case_id in tried if case_id in read}
            first, size = first + size, 4 * size
        return dict(islice(found.items(), MOST_OTHERS))


def _drawn(case_id: str) -> bytes:
    """Order in which cases are drawn: by the digest of the case's id."""
    return hashlib.blake2b(case_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def score_similarity(
    folder: RunFolder, criterion: Criterion, shard: str, shard_index: int, others: OtherCases, timing: Timing
) -> pa.Table:
    """Compare a shard's outputs with their own texts: `VERDICT_SCHEMA`, one row per output, in the shard's order.

    Writes the similarities to the run's folder, as `SIMILARITY_SCHEMA`. Raises `TypeError` for a criterion of another
    method.
    """
    method = similarity_of(criterion)
    tables, rows = [], list[pa.Table]()
    among = others.of(method)
    if isinstance(among.space, StoredVectors):
        parts = _planned_parts(shard, read_planned_keys(folder.plan_file(criterion.id, shard_index)))
    else:
        parts = _text_parts(compared_rows(method, others.compared, shard))
    for part in parts:
        compared = _compare(method, part, among)
        tables.append(_verdicts(folder.run_id, criterion, method, part, compared))
        rows.append(_rows(folder.run_id, criterion.id, others.embedder, part, compared))
        timing.row_count += len(part.output_ids)
    table = pa.concat_tables([SIMILARITY_SCHEMA.empty_table(), *rows])
    write_parquet(folder.detail_file("similarities", criterion.id, shard_index), table)
    return pa.concat_tables(tables) if tables else verdict_table(folder.run_id, criterion, *_NOTHING)


_NOTHING = pa.nulls(0, pa.string()), pa.nulls(0, pa.string()), pa.nulls(0, pa.float64())


@dataclass(frozen=True, slots=True)
class _Compared:
    """Similarities of the rows that have vectors to be compared, and by row the reasons why the others have none."""

    rows: Counts
    found: Similarities
    gaps: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of a shard. passage_counts: (row,). texts: outputs of the rows with passages, then all these passages.

    Texts may be given by their request keys.
    """

    case_ids: Sequence[str]
    output_ids: Sequence[str]
    passage_counts: Counts
    texts: Any


def _text_parts(rows: Iterator[ComparedRow]) -> Iterator[_Part]:
    while part := list(islice(rows, BATCH)):
        texts = [row.output for row in part if row.passages] + [text for row in part for text in row.passages]
        counts = np.array([len(row.passages) for row in part], np.int64)
        yield _Part([row.case_id for row in part], [row.output_id for row in part], counts, texts)


def _planned_parts(shard: str, planned: PlannedKeys) -> Iterator[_Part]:
    ids = pq.read_table(shard, columns=["case_id", "output_id"])
    counts = planned.passage_counts
    output_ends, passage_ends = (np.concatenate([[0], np.cumsum(each)]) for each in (counts > 0, counts))
    for first in range(0, len(counts), BATCH):
        last = min(first + BATCH, len(counts))
        outputs = planned.outputs[output_ends[first] : output_ends[last]]
        passages = planned.passages[passage_ends[first] : passage_ends[last]]
        case_ids, output_ids = (column.to_pylist() for column in ids.slice(first, BATCH).columns)
        yield _Part(case_ids, output_ids, counts[first:last], np.concatenate([outputs, passages]))


def _compare(method: SimilarityMethod, part: _Part, others: _Others) -> _Compared:
    is_compared = part.passage_counts > 0
    rows, counts = np.flatnonzero(is_compared), part.passage_counts[is_compared]
    no_passage = f"no_{method.against}: nothing to compare with"
    gaps = dict.fromkeys(np.flatnonzero(~is_compared).tolist(), no_passage)
    vectors = others.space.vectors(part.texts)
    row_of = np.concatenate([np.arange(len(rows)), np.repeat(np.arange(len(rows)), counts)])  # of each text
    blank = np.flatnonzero(zero_rows(vectors))
    faults = [(row_of[place], fault) for place in blank if (fault := others.space.fault(part.texts[place])) is not None]
    if faults:
        for row, fault in faults:
            gaps.setdefault(int(rows[row]), fault)
        is_usable = ~np.isin(np.arange(len(rows)), [row for row, _ in faults])
        vectors, rows, counts = vectors[is_usable[row_of]], rows[is_usable], counts[is_usable]
    found = compare_vectors(
        vectors[: len(rows)],
        vectors[len(rows) :],
        np.cumsum(counts) - counts,
        others.texts,
        others.starts,
        np.array([others.places.get(part.case_ids[row], -1) for row in rows.tolist()], np.int64),
    )
    return _Compared(rows, found, gaps)


def _rows(run_id: str, criterion_id: str, embedder: str, part: _Part, compared: _Compared) -> pa.Table:
    """Rows of `SIMILARITY_SCHEMA`."""
    count, found = len(compared.rows), compared.found
    columns = [
        pa.repeat(run_id, count),
        pa.array(part.output_ids, pa.string()).take(pa.array(compared.rows)),
        pa.repeat(criterion_id, count),
        pa.array(found.own, pa.float64()),
        pa.array(found.null, pa.float64(), mask=np.isnan(found.null)),
        pa.array(found.other_counts, pa.int64()),
        pa.repeat(embedder, count),
    ]
    return pa.table(columns, schema=SIMILARITY_SCHEMA)


def _verdicts(
    run_id: str,
    criterion: Criterion,
    method: SimilarityMethod,
    part: _Part,
    compared: _Compared,
) -> pa.Table:
    """Scores, reasons and rationales of a part of a shard."""
    found, count = compared.found, len(part.output_ids)
    scores = np.full(count, np.nan)
    scores[compared.rows] = found.rescaled if method.is_rescaled else np.clip(found.own, 0, 1)
    if method.is_rescaled:
        scores[compared.rows[found.other_counts < FEWEST_OTHERS]] = np.nan
    reasons: list[str | None] = [None] * count
    rationales: list[str | None] = [None] * count
    for row, reason in compared.gaps.items():
        reasons[row] = reason
    values = (each.tolist() for each in (compared.rows, found.own, found.null, found.other_counts))
    for row, own, null, others in zip(*values, strict=True):
        beside = f", {null:.3f} on average to those of {counted(others, 'other case')}" if others else "; no other case"
        rationales[row] = f"similarity {own:.3f} to its {method.against}{beside}"
    for place in np.flatnonzero(np.isnan(scores[compared.rows])):
        others = found.other_counts[place]
        too_few = f"too_few_cases: found {counted(others, 'other')} to compare with, expected {FEWEST_OTHERS}"
        no_contrast = f"no_contrast: the {method.against} is the same in all cases"
        reasons[compared.rows[place]] = too_few if others < FEWEST_OTHERS else no_contrast
    return verdict_table(
        run_id,
        criterion,
        pa.array(part.output_ids, pa.string()),
        pa.nulls(count, pa.string()),
        pa.array(scores, pa.float64(), mask=np.isnan(scores)),
        reasons=pa.array(reasons, pa.string()),
        rationales=pa.array(rationales, pa.string()),
    )
