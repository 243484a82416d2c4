"""Verdicts on criteria of the method `similarity`: outputs beside their own texts and those of other cases."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import Any, Self

import numpy as np
import pyarrow as pa

from gradebook.rubrics.model.methods import SimilarityMethod
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.verdicts import verdict_table
from gradebook.rubrics.prompts.prompt import Case
from gradebook.rubrics.statistics.similarity import Counts, Similarities, compare_vectors, starts_of
from gradebook.tasks.judging.settings.embedder import LEXICAL
from gradebook.tasks.planning.cases import read_cases
from gradebook.tasks.planning.similarity import ComparedTexts, Passages, case_ids_of, shard_cases
from gradebook.tasks.scoring.embeddings import MakeSpace, Space, lexical_space
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
        in_shards = [case_ids_of(shard) for shard in self._shards]
        drawn = sorted(set().union(*in_shards), key=_drawn)
        first, size = 0, 2 * MOST_OTHERS  # most cases have a text
        found: dict[str, Passages] = {}
        while first < len(drawn) and len(found) < MOST_OTHERS:
            tried = drawn[first : first + size]
            read: dict[str, Passages] = {}
            for shard, case_ids in zip(self._shards, in_shards, strict=True):
                wanted = set(tried).difference(read)
                rows = read_cases(shard, case_ids=list(wanted))
                for case_id, (_, case) in zip((each for each in case_ids if each in wanted), rows, strict=True):
                    if case_id not in read and (passages := self.compared.of(method, case_id, case)):
                        read[case_id] = passages
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
    method = criterion.method
    if not isinstance(method, SimilarityMethod):
        raise TypeError(f"{criterion.id}: found the method {method.type}, expected similarity")
    tables, rows = [], list[pa.Table]()
    cases = shard_cases(shard)
    while part := list(islice(cases, BATCH)):
        compared = _compare(method, part, others.compared, others.of(method))
        tables.append(_verdicts(folder.run_id, criterion, method, part, compared))
        rows.append(_rows(folder.run_id, criterion.id, others.embedder, compared))
        timing.row_count += len(part)
    table = pa.concat_tables([SIMILARITY_SCHEMA.empty_table(), *rows])
    write_parquet(folder.detail_file("similarities", criterion.id, shard_index), table)
    return pa.concat_tables(tables) if tables else verdict_table(folder.run_id, criterion, *_NOTHING)


_NOTHING = pa.nulls(0, pa.string()), pa.nulls(0, pa.string()), pa.nulls(0, pa.float64())


@dataclass(frozen=True, slots=True)
class _Compared:
    """Similarities of the outputs that have vectors to be compared, and reasons why the others have none."""

    output_ids: tuple[str, ...]
    found: Similarities
    gaps: Mapping[str, str]


def _compare(
    method: SimilarityMethod, part: Sequence[tuple[str, str, Case]], texts: ComparedTexts, others: _Others
) -> _Compared:
    gaps: dict[str, str] = {}
    output_ids: list[str] = []
    outputs: list[str] = []
    own: list[Passages] = []
    own_places: list[int] = []
    fault_of = others.space.fault
    for case_id, output_id, case in part:
        passages = texts.of(method, case_id, case)
        fault = next(filter(None, map(fault_of, (case.output, *passages))), None) if passages else None
        if not passages or fault is not None:
            gaps[output_id] = fault or f"no_{method.against}: nothing to compare with"
            continue
        output_ids.append(output_id)
        outputs.append(case.output)
        own.append(passages)
        own_places.append(others.places.get(case_id, -1))
    vectors = others.space.vectors
    found = compare_vectors(
        vectors(outputs),
        vectors([text for passages in own for text in passages]),
        starts_of(own),
        others.texts,
        others.starts,
        np.array(own_places, np.int64),
    )
    return _Compared(tuple(output_ids), found, gaps)


def _rows(run_id: str, criterion_id: str, embedder: str, compared: _Compared) -> pa.Table:
    """Rows of `SIMILARITY_SCHEMA`."""
    count, found = len(compared.output_ids), compared.found
    columns = [
        pa.repeat(run_id, count),
        pa.array(compared.output_ids, pa.string()),
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
    part: Sequence[tuple[str, str, Case]],
    compared: _Compared,
) -> pa.Table:
    scores: list[float | None] = []
    reasons: list[str | None] = []
    rationales: list[str | None] = []
    found = compared.found
    values = zip(*(each.tolist() for each in (found.own, found.null, found.other_counts, found.rescaled)), strict=True)
    of_output = dict(zip(compared.output_ids, values, strict=True))
    for _, output_id, _ in part:
        score, reason, words = None, compared.gaps.get(output_id), None
        if reason is None:
            own, null, count, rescaled = of_output[output_id]
            words = f"similarity {own:.3f} to its {method.against}" + (
                f", {null:.3f} on average to those of {count:,} other cases" if count else "; no other case"
            )
            if not method.is_rescaled:
                score = min(max(own, 0.0), 1.0)
            elif count < FEWEST_OTHERS:
                reason = f"too_few_cases: found {count} others to compare with, expected {FEWEST_OTHERS}"
            elif math.isnan(rescaled):
                reason = f"no_contrast: the {method.against} is the same in all cases"
            else:
                score = rescaled
        scores.append(score)
        reasons.append(reason)
        rationales.append(words)
    return verdict_table(
        run_id,
        criterion,
        pa.array([output_id for _, output_id, _ in part], pa.string()),
        pa.nulls(len(part), pa.string()),
        pa.array(scores, pa.float64()),
        reasons=pa.array(reasons, pa.string()),
        rationales=pa.array(rationales, pa.string()),
    )
