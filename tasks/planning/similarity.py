"""Texts that criteria of the method `similarity` compare, and the plan of their vectors."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import duckdb
import pyarrow.parquet as pq

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.methods import BASELINE, PreferenceMethod, SimilarityMethod, compares_with_baseline
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.prompts.prompt import Case
from gradebook.tasks.judging.money.prices import BYTES_PER_TOKEN, Usage, cost_usd, embedding_price, prompt_bytes
from gradebook.tasks.judging.replies.embedding_questions import (
    WantedText,
    batches_of,
    embedded_messages,
    embedding_key,
)
from gradebook.tasks.judging.settings.embedder import EmbedderSettings
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.planning.cases import read_cases
from gradebook.tasks.planning.estimates import BYTES_PER_TOKEN_RANGE, Estimate, held_rationales

LATEST = "latest"
Passages = tuple[str, ...]

_BASELINE_OUTPUTS = """
select case_id, list(output order by output_id)
from outputs where output_id in (select output_id from output_scores where run_id = ?) group by case_id
"""


@dataclass(frozen=True, slots=True)
class ComparedTexts:
    """Texts that outputs are compared with: of their rows, or the outputs of a baseline by case."""

    baseline: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def of(self, method: SimilarityMethod, case_id: str, case: Case) -> Passages:
        """Texts of one case that are not blank."""
        if method.against == BASELINE:
            return tuple(text for text in self.baseline.get(case_id, ()) if text.strip())
        passages = case.passages(method.against)
        if method.separator is None:
            return passages
        return tuple(part.strip() for each in passages for part in each.split(method.separator) if part.strip())


def similarity_criteria(rubric: Rubric) -> list[Criterion]:
    """Criteria of the method `similarity`."""
    return [criterion for criterion in rubric.criteria if isinstance(criterion.method, SimilarityMethod)]


def refuse_unnamed_baseline(rubric: Rubric, baseline: str | None) -> None:
    """Raise `InputError` for outputs that are compared with those of a run that is known only afterwards, or of none.

    Without a baseline, similarity is unscored; a preference would have nothing at all to ask.
    """
    compared = [each for each in rubric.criteria if compares_with_baseline(each.method)]
    if baseline is None:
        compared = [each for each in compared if isinstance(each.method, PreferenceMethod)]
    if baseline in (LATEST, None) and compared:
        raise InputError(
            "--baseline", baseline or "none", f"the id of a run: {compared[0].id} compares with its outputs"
        )


def read_compared_texts(lake: Lake, rubric: Rubric, baseline: str | None) -> ComparedTexts:
    """Texts for a rubric's criteria. baseline: of the request; without one nothing is compared with its outputs."""
    if baseline is None or not any(compares_with_baseline(each.method) for each in similarity_criteria(rubric)):
        return ComparedTexts()
    with connect_up_to_date(lake) as connection:
        return ComparedTexts(dict(connection.execute(_BASELINE_OUTPUTS, [baseline]).fetchall()))


def case_ids_of(shard: str) -> list[str]:
    """Case id of each row."""
    found: list[str] = pq.read_table(shard, columns=["case_id"]).column("case_id").to_pylist()
    return found


def shard_cases(shard: str) -> Iterator[tuple[str, str, Case]]:
    """Case id, output id and case of each row."""
    for case_id, (output_id, case) in zip(case_ids_of(shard), read_cases(shard), strict=True):
        yield case_id, output_id, case


def wanted_texts(
    criterion: Criterion, compared: ComparedTexts, shards: Iterable[str], embedder_digest: str
) -> Iterator[WantedText]:
    """Texts whose vectors a criterion needs: outputs that have something to be compared with, and that; with
    repetitions. Blank texts have no vector.
    """
    method = criterion.method
    if not isinstance(method, SimilarityMethod):
        raise TypeError(f"{criterion.id}: found the method {method.type}, expected similarity")
    for shard in shards:
        for case_id, output_id, case in shard_cases(shard):
            passages = compared.of(method, case_id, case)
            for text in (case.output, *passages) if passages else ():
                if text.strip():
                    yield WantedText(embedding_key(embedder_digest, text), text, output_id, criterion.id)


@dataclass(frozen=True, slots=True)
class VectorsCount:
    """Vectors that are wanted: those in the ledger, and the requests for the others."""

    replayed_count: int
    request_count: int
    estimate: Estimate


def count_vectors(wanted: Mapping[str, WantedText], held: Container[str], embedder: EmbedderSettings) -> VectorsCount:
    """Requests for the vectors that the ledger lacks, and their price. wanted, held: by request key."""
    missing = [text for key, text in wanted.items() if key not in held]
    request_count = sum(1 for _ in batches_of(missing, embedder))
    byte_count = sum(prompt_bytes(embedded_messages([text.text]), None) for text in missing)
    tokens, least, most = (round(byte_count / rate) for rate in (BYTES_PER_TOKEN, *reversed(BYTES_PER_TOKEN_RANGE)))
    price = embedding_price(embedder.asking)
    costs = [cost_usd(price, Usage(count), max(1, request_count)) for count in (tokens, least, most)]
    return VectorsCount(len(wanted) - len(missing), request_count, Estimate(tokens, 0, 0, *costs))


class VectorsPlanner:
    """Counts of the requests for vectors, criterion by criterion: a text counts at the first that wants it."""

    def __init__(self, ledger: duckdb.DuckDBPyConnection, embedder: EmbedderSettings, compared: ComparedTexts) -> None:
        self._ledger, self._embedder, self._compared = ledger, embedder, compared
        self._seen: set[str] = set()

    def count(self, criterion: Criterion, shards: Iterable[str]) -> VectorsCount:
        """Requests for one criterion."""
        wanted = {
            text.request_key: text
            for text in wanted_texts(criterion, self._compared, shards, self._embedder.digest)
            if text.request_key not in self._seen
        }
        self._seen.update(wanted)
        return count_vectors(wanted, held_rationales(self._ledger, wanted), self._embedder)
