"""Method `similarity`: outputs compared with the texts of their own case and of other cases."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.rubrics.model.methods import SimilarityMethod
from gradebook.rubrics.model.outputs import read_field
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.model.verdicts import verdict_table
from gradebook.rubrics.statistics.similarity import Counts, Similarities, compare_vectors, starts_of, zero_rows
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.judging.settings.embedder import LEXICAL
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.methods.embeddings import MakeSpace, Space, StoredVectors, embed_texts, lexical_space
from gradebook.tasks.methods.method import ScoringMethod, ScoringSetup
from gradebook.tasks.planning.estimates import OpinionEstimate
from gradebook.tasks.planning.plan import MethodPlan, Planning, RunPlan
from gradebook.tasks.planning.similarity import (
    ComparedRow,
    ComparedTexts,
    Passages,
    PlannedKeys,
    VectorsPlanner,
    case_ids_of,
    compared_rows,
    read_compared_texts,
    read_planned_keys,
    similarity_criteria,
)
from gradebook.tasks.runs.run import Run
from gradebook.tasks.system.files import write_parquet
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
MOST_OTHERS = 200  # other cases: the standard error of their mean is then below 1/14 of their spread
FEWEST_OTHERS = 5
OUTPUTS_AT_ONCE = 500  # outputs compared at once


@dataclass(frozen=True, slots=True)
class _OtherTexts:
    """Cases that every output is compared with."""

    indices: Mapping[str, int]  # by case id
    starts: Counts  # (case,), index of its first text
    texts: Any  # (text, dim), their vectors
    space: Space

    @classmethod
    def read(cls, texts_by_case: Mapping[str, Passages], make_space: MakeSpace) -> Self:
        """Cases by id, each with at least one text; cases with a text without a vector are left out."""
        space = make_space([text for case_texts in texts_by_case.values() for text in case_texts])
        usable = {case_id: texts for case_id, texts in texts_by_case.items() if not any(map(space.fault, texts))}
        texts = [text for case_texts in usable.values() for text in case_texts]
        indices = {case_id: index for index, case_id in enumerate(usable)}
        return cls(indices, starts_of([*usable.values()]), space.vectors(texts), space)


class OtherCases:
    """Other cases of a run, for each compared column; found once for all shards."""

    def __init__(
        self,
        shards: Sequence[str] = (),
        make_space: MakeSpace = lexical_space,
        compared: ComparedTexts | None = None,
        embedder: str = LEXICAL,
    ) -> None:
        """compared: texts that outputs are compared with. embedder: name of the source of the vectors."""
        self._shards, self._lock = tuple(shards), Lock()
        self._make_space, self.compared, self.embedder = make_space, compared or ComparedTexts(), embedder
        self._by_column: dict[tuple[str, str | None], _OtherTexts] = {}

    def of(self, method: SimilarityMethod) -> _OtherTexts:
        """Up to 200 cases, the same in every run over the same cases; cases with an empty column are left out."""
        key = method.against, method.separator
        with self._lock:
            if key not in self._by_column:
                passages = dict(sorted(self._passages(method).items()))
                self._by_column[key] = _OtherTexts.read(passages, self._make_space)
            return self._by_column[key]

    def _passages(self, method: SimilarityMethod) -> dict[str, Passages]:
        """Texts of up to 200 cases, in drawing order; the texts of a case are those of its first row with any."""
        drawn_ids = sorted(set().union(*map(case_ids_of, self._shards)), key=_drawn)
        first, size = 0, 2 * MOST_OTHERS  # most cases have a text
        passages: dict[str, Passages] = {}
        while first < len(drawn_ids) and len(passages) < MOST_OTHERS:
            tried_ids = drawn_ids[first : first + size]
            read_passages: dict[str, Passages] = {}
            for shard in self._shards:
                for row in compared_rows(method, self.compared, shard, set(tried_ids).difference(read_passages)):
                    if row.passages:
                        read_passages.setdefault(row.case_id, row.passages)
            passages |= {case_id: read_passages[case_id] for case_id in tried_ids if case_id in read_passages}
            first, size = first + size, 4 * size
        return dict(islice(passages.items(), MOST_OTHERS))


def _drawn(case_id: str) -> bytes:
    """Order in which cases are drawn: by the digest of the case's id."""
    return hashlib.blake2b(case_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class SimilarityScoring(ScoringMethod):
    """Outputs compared with the texts of their own case and of other cases."""

    reads_whole_shards = True  # other cases may be in any row

    def outside(self, lake: Lake, rubric: Rubric, baseline: str, shard: str) -> OtherCases:
        """Other cases from the baseline's outputs, compared by the wording of their texts."""
        others = OtherCases((shard,), compared=read_compared_texts(lake, rubric, baseline))
        for criterion in similarity_criteria(rubric):
            others.of(criterion.method_as(SimilarityMethod))  # reads the shard now: it is a temporary file
        return others

    def plan(self, planning: Planning, criteria: Sequence[Criterion]) -> MethodPlan:
        """Write the request keys of all texts, if the run has an embedder; count the vectors that the ledger lacks."""
        embedder = planning.embedder
        if embedder is None or embedder.folder is not None or not criteria:
            return MethodPlan()
        compared = read_compared_texts(planning.lake, planning.rubric, planning.baseline)
        planner = VectorsPlanner(planning.ledger, planning.folder, embedder, compared)
        counts = {criterion.id: planner.count(criterion, planning.ingested.shards) for criterion in criteria}
        return MethodPlan(
            {
                name: [OpinionEstimate(count.replayed_count, 0, count.request_count, 0, count.estimate)]
                for name, count in counts.items()
            }
        )

    @contextmanager
    def opened(self, run: Run, plan: RunPlan, shards: Sequence[str]) -> Iterator[OtherCases]:
        """Other cases of the run, with the vectors of all texts; asks for vectors that the ledger lacks."""
        compared = read_compared_texts(run.lake, run.rubric, run.request.baseline)
        make_space = embed_texts(run, plan, compared, shards)
        yield OtherCases(shards, make_space, compared, LEXICAL if run.embedder is None else run.embedder.name)

    def score_shard(
        self, setup: ScoringSetup, criterion: Criterion, shard: str, shard_index: int, timing: Timing
    ) -> pa.Table:
        """Compare a shard's outputs with their own texts. Details: the similarities, as `SIMILARITY_SCHEMA`."""
        method, folder = criterion.method_as(SimilarityMethod), setup.folder
        others: OtherCases = setup.resources.get(method.kind) or OtherCases((shard,))
        tables, rows = [], list[pa.Table]()
        other_texts, without_field = others.of(method), _without_field(shard, method.field)
        if isinstance(other_texts.space, StoredVectors):
            batches = _planned_batches(shard, read_planned_keys(folder.plan_file(criterion.id, shard_index)))
        else:
            batches = _text_batches(compared_rows(method, others.compared, shard))
        for batch in batches:
            compared = _compare(method, batch, other_texts, without_field)
            tables.append(_verdicts(folder.run_id, criterion, method, batch, compared))
            rows.append(_rows(folder.run_id, criterion.id, others.embedder, batch, compared))
            timing.row_count += len(batch.output_ids)
        table = pa.concat_tables([SIMILARITY_SCHEMA.empty_table(), *rows])
        write_parquet(folder.detail_file("similarities", criterion.id, shard_index), table)
        return pa.concat_tables(tables) if tables else verdict_table(folder.run_id, criterion, *_NOTHING)


_NOTHING = pa.nulls(0, pa.string()), pa.nulls(0, pa.string()), pa.nulls(0, pa.float64())


@dataclass(frozen=True, slots=True)
class _ComparedRows:
    """Similarities of the comparable rows, and reasons of the others, by row."""

    rows: Counts
    similarities: Similarities
    gaps: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class _Batch:
    """Rows of a shard. passage_counts: (row,). texts: outputs of the rows with passages, then all their passages.

    Texts may be given by their request keys.
    """

    case_ids: Sequence[str]
    output_ids: Sequence[str]
    passage_counts: Counts
    texts: Any


def _text_batches(rows: Iterator[ComparedRow]) -> Iterator[_Batch]:
    while batch := list(islice(rows, OUTPUTS_AT_ONCE)):
        texts = [row.output for row in batch if row.passages] + [text for row in batch for text in row.passages]
        counts = np.array([len(row.passages) for row in batch], np.int64)
        yield _Batch([row.case_id for row in batch], [row.output_id for row in batch], counts, texts)


def _planned_batches(shard: str, planned: PlannedKeys) -> Iterator[_Batch]:
    ids = pq.read_table(shard, columns=["case_id", "output_id"])
    counts = planned.passage_counts
    output_ends, passage_ends = (np.concatenate([[0], np.cumsum(counted)]) for counted in (counts > 0, counts))
    for first in range(0, len(counts), OUTPUTS_AT_ONCE):
        last = min(first + OUTPUTS_AT_ONCE, len(counts))
        outputs = planned.outputs[output_ends[first] : output_ends[last]]
        passages = planned.passages[passage_ends[first] : passage_ends[last]]
        case_ids, output_ids = (column.to_pylist() for column in ids.slice(first, OUTPUTS_AT_ONCE).columns)
        yield _Batch(case_ids, output_ids, counts[first:last], np.concatenate([outputs, passages]))


def _without_field(shard: str, path: str | None) -> dict[str, str]:
    """Reasons of outputs that lack the compared field, by output id."""
    if path is None:
        return {}
    rows = pq.read_table(shard, columns=["output_id", "output"]).to_pydict()
    faults = ((output_id, read_field(output, path)[1]) for output_id, output in zip(*rows.values(), strict=True))
    return {output_id: fault for output_id, fault in faults if fault is not None}


def _compare(
    method: SimilarityMethod, batch: _Batch, others: _OtherTexts, without_field: Mapping[str, str]
) -> _ComparedRows:
    is_compared = batch.passage_counts > 0
    rows, counts = np.flatnonzero(is_compared), batch.passage_counts[is_compared]
    no_passage = f"no_{method.against}: nothing to compare with"
    gaps = {row: without_field.get(batch.output_ids[row], no_passage) for row in np.flatnonzero(~is_compared).tolist()}
    vectors = others.space.vectors(batch.texts)
    row_of = np.concatenate([np.arange(len(rows)), np.repeat(np.arange(len(rows)), counts)])  # of each text
    blank = np.flatnonzero(zero_rows(vectors))
    faults = [
        (row_of[index], fault) for index in blank if (fault := others.space.fault(batch.texts[index])) is not None
    ]
    if faults:
        for row, fault in faults:
            gaps.setdefault(int(rows[row]), fault)
        is_usable = ~np.isin(np.arange(len(rows)), [row for row, _ in faults])
        vectors, rows, counts = vectors[is_usable[row_of]], rows[is_usable], counts[is_usable]
    similarities = compare_vectors(
        vectors[: len(rows)],
        vectors[len(rows) :],
        np.cumsum(counts) - counts,
        others.texts,
        others.starts,
        np.array([others.indices.get(batch.case_ids[row], -1) for row in rows.tolist()], np.int64),
    )
    return _ComparedRows(rows, similarities, gaps)


def _rows(run_id: str, criterion_id: str, embedder: str, batch: _Batch, compared: _ComparedRows) -> pa.Table:
    """Rows of `SIMILARITY_SCHEMA`."""
    count, similarities = len(compared.rows), compared.similarities
    columns = [
        pa.repeat(run_id, count),
        pa.array(batch.output_ids, pa.string()).take(pa.array(compared.rows)),
        pa.repeat(criterion_id, count),
        pa.array(similarities.own, pa.float64()),
        pa.array(similarities.null, pa.float64(), mask=np.isnan(similarities.null)),
        pa.array(similarities.other_counts, pa.int64()),
        pa.repeat(embedder, count),
    ]
    return pa.table(columns, schema=SIMILARITY_SCHEMA)


def _verdicts(
    run_id: str,
    criterion: Criterion,
    method: SimilarityMethod,
    batch: _Batch,
    compared: _ComparedRows,
) -> pa.Table:
    """Scores, reasons and rationales of a part of a shard."""
    similarities, count = compared.similarities, len(batch.output_ids)
    scores = np.full(count, np.nan)
    scores[compared.rows] = similarities.rescaled if method.is_rescaled else np.clip(similarities.own, 0, 1)
    if method.is_rescaled:
        scores[compared.rows[similarities.other_counts < FEWEST_OTHERS]] = np.nan
    reasons: list[str | None] = [None] * count
    rationales: list[str | None] = [None] * count
    for row, reason in compared.gaps.items():
        reasons[row] = reason
    values = (
        column.tolist() for column in (compared.rows, similarities.own, similarities.null, similarities.other_counts)
    )
    for row, similarity, null, other_count in zip(*values, strict=True):
        comparison = (
            f", {null:.3f} on average to those of {counted(other_count, 'other case')}"
            if other_count
            else "; no other case"
        )
        rationales[row] = f"similarity {similarity:.3f} to its {method.against}{comparison}"
    for index in np.flatnonzero(np.isnan(scores[compared.rows])):
        other_count = similarities.other_counts[index]
        too_few = f"too_few_cases: found {counted(other_count, 'other')} to compare with, expected {FEWEST_OTHERS}"
        no_contrast = f"no_contrast: the {method.against} is the same in all cases"
        reasons[compared.rows[index]] = too_few if other_count < FEWEST_OTHERS else no_contrast
    return verdict_table(
        run_id,
        criterion,
        pa.array(batch.output_ids, pa.string()),
        pa.nulls(count, pa.string()),
        pa.array(scores, pa.float64(), mask=np.isnan(scores)),
        reasons=pa.array(reasons, pa.string()),
        rationales=pa.array(rationales, pa.string()),
    )
