"""Verdicts on criteria of the method `similarity`: outputs beside their own texts and those of other cases."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from threading import Lock
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.rubrics.model.methods import SimilarityMethod
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.verdicts import verdict_table
from gradebook.rubrics.prompts.prompt import Case
from gradebook.rubrics.statistics.lexical import LexicalVectors
from gradebook.rubrics.statistics.similarity import Counts, Similarities, compare_vectors, starts_of
from gradebook.tasks.planning.cases import read_cases
from gradebook.tasks.system.files import write_parquet
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import Timing

SIMILARITY_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in ("run_id", "output_id", "criterion_id")),
        pa.field("similarity", pa.float64(), nullable=False),
        pa.field("null_similarity", pa.float64()),
        pa.field("other_case_count", pa.int64(), nullable=False),
    ]
)
MOST_OTHERS = 200  # cases to compare with: the null's standard error is then below 1/14 of their spread
FEWEST_OTHERS = 5
BATCH = 500  # outputs
Passages = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Others:
    """Cases that every output is compared with."""

    case_ids: tuple[str, ...]
    starts: Counts  # (case,), the first text of each
    texts: Any  # (text, dim), their vectors
    space: LexicalVectors

    @classmethod
    def among(cls, passages: Mapping[str, Passages]) -> Self:
        """Cases by id, each with at least one text."""
        texts = [text for each in passages.values() for text in each]
        space = LexicalVectors(texts)
        return cls(tuple(passages), starts_of([*passages.values()]), space.vectors(texts), space)


class OtherCases:
    """Other cases of a run, for each column that is compared with; found once for all shards."""

    def __init__(self, shards: Sequence[str] = ()) -> None:
        self._shards, self._lock = tuple(shards), Lock()
        self._found: dict[tuple[str, str | None], _Others] = {}

    def of(self, method: SimilarityMethod) -> _Others:
        """Up to 200 cases, the same in every run over the same cases; those with an empty column are left out."""
        key = method.against, method.separator
        with self._lock:
            if key not in self._found:
                chosen = dict(sorted(nsmallest(MOST_OTHERS, self._passages(method).items(), key=_drawn)))
                self._found[key] = _Others.among(chosen)
            return self._found[key]

    def _passages(self, method: SimilarityMethod) -> dict[str, Passages]:
        """Texts of each case, of its first row that has any; of at most twice as many cases as are chosen at a time."""
        found: dict[str, Passages] = {}
        for shard in self._shards:
            for case_id, _, case in _cases(shard):
                if case_id not in found and (passages := _passages(method, case)):
                    found[case_id] = passages
                    if len(found) > 2 * MOST_OTHERS:
                        found = dict(nsmallest(MOST_OTHERS, found.items(), key=_drawn))
        return found


def _drawn(entry: tuple[str, Passages]) -> bytes:
    """Order in which cases are drawn: by the digest of the case's id."""
    return hashlib.blake2b(entry[0].encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _cases(shard: str) -> Iterator[tuple[str, str, Case]]:
    """Case id, output id and case of each row."""
    case_ids = pq.read_table(shard, columns=["case_id"]).column("case_id").to_pylist()
    for case_id, (output_id, case) in zip(case_ids, read_cases(shard), strict=True):
        yield case_id, output_id, case


def _passages(method: SimilarityMethod, case: Case) -> Passages:
    passages = case.passages(method.against)
    if method.separator is None:
        return passages
    return tuple(part.strip() for each in passages for part in each.split(method.separator) if part.strip())


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
    tables, rows = [], list[dict[str, object]]()
    cases = _cases(shard)
    while part := list(islice(cases, BATCH)):
        compared, found = _compare(method, part, others.of(method))
        tables.append(_verdicts(folder.run_id, criterion, method, part, compared, found))
        for place, (_, output_id) in enumerate(compared):
            null = found.null[place]
            rows.append(
                {
                    "run_id": folder.run_id,
                    "output_id": output_id,
                    "criterion_id": criterion.id,
                    "similarity": found.own[place],
                    "null_similarity": None if np.isnan(null) else null,
                    "other_case_count": found.other_counts[place],
                }
            )
        timing.row_count += len(part)
    table = pa.Table.from_pylist(rows, schema=SIMILARITY_SCHEMA)
    write_parquet(folder.similarities_file(criterion.id, shard_index), table)
    return pa.concat_tables(tables) if tables else verdict_table(folder.run_id, criterion, *_NOTHING)


_NOTHING = pa.nulls(0, pa.string()), pa.nulls(0, pa.string()), pa.nulls(0, pa.float64())


def _compare(
    method: SimilarityMethod, part: Sequence[tuple[str, str, Case]], others: _Others
) -> tuple[list[tuple[str, str]], Similarities]:
    """Case id and output id of the outputs that have something to be compared with, and their similarities."""
    own = [(case_id, output_id, case.output, _passages(method, case)) for case_id, output_id, case in part]
    own = [each for each in own if each[-1]]
    vectors = others.space.vectors
    case_ids = np.array([case_id for case_id, *_ in own], object)
    found = compare_vectors(
        vectors([output for *_, output, _ in own]),
        vectors([text for *_, passages in own for text in passages]),
        starts_of([passages for *_, passages in own]),
        others.texts,
        others.starts,
        case_ids[:, np.newaxis] != np.array(others.case_ids, object),
    )
    return [(case_id, output_id) for case_id, output_id, *_ in own], found


def _verdicts(
    run_id: str,
    criterion: Criterion,
    method: SimilarityMethod,
    part: Sequence[tuple[str, str, Case]],
    compared: Sequence[tuple[str, str]],
    found: Similarities,
) -> pa.Table:
    places = {output_id: place for place, (_, output_id) in enumerate(compared)}
    scores: list[float | None] = []
    reasons: list[str | None] = []
    rationales: list[str | None] = []
    rescaled = found.rescaled
    for _, output_id, _ in part:
        place = places.get(output_id)
        score, words = None, None
        reason: str | None = f"no_{method.against}: nothing to compare with"
        if place is not None:
            own, null, count = float(found.own[place]), found.null[place], int(found.other_counts[place])
            words = f"similarity {own:.3f} to its {method.against}" + (
                f", {null:.3f} on average to those of {count:,} other cases" if count else "; no other case"
            )
            reason = None
            if not method.is_rescaled:
                score = min(max(own, 0.0), 1.0)
            elif count < FEWEST_OTHERS:
                reason = f"too_few_cases: found {count} others to compare with, expected {FEWEST_OTHERS}"
            elif np.isnan(rescaled[place]):
                reason = f"no_contrast: the {method.against} is the same in all cases"
            else:
                score = float(rescaled[place])
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
