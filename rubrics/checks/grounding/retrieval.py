"""Check of a retriever: the retrieved passages against the relevant ones."""

import math
from collections.abc import Sequence, Set
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import Field

from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.check_kit.json_text import NotJson, parse_json
from gradebook.rubrics.check_kit.measures import MeasureSettings, judge_measures

RetrievalMeasure = Literal["recall", "precision", "average_precision", "reciprocal_rank", "ndcg"]
Path = Annotated[str, Field(min_length=1)]
_RETRIEVED = {"metadata": {"retrieved": ["a", "b", "c"], "relevant": ["a", "d"]}}


class RetrievalSettings(MeasureSettings):
    """Measure of the check, and the keys of the row's metadata that have the ids."""

    measure: RetrievalMeasure = "recall"
    """recall: relevant passages found / relevant; precision: relevant passages found / found; average_precision,
    reciprocal_rank and ndcg depend on the rank too"""
    first: Annotated[int, Field(ge=1)] | None = None
    """number of passages found that count, from the first; default: all"""
    retrieved: Path = "retrieved"
    """path in `metadata` to the ids of the passages found, best first; a dot leads into an object, and into each object
    of a list"""
    relevant: Path = "relevant"
    """path in `metadata` to the ids of the relevant passages"""

    @property
    def reach(self) -> tuple[float, float]:
        return 0.0, 1.0


@register_check(
    "retrieval",
    RetrievalSettings,
    columns=("metadata",),
    cost="rows",
    examples=(
        Example("", True, {"min": 0.5}, _RETRIEVED),
        Example("", False, {"min": 0.5, "measure": "precision"}, _RETRIEVED),
        Example("", True, {"min": 1, "measure": "reciprocal_rank"}, _RETRIEVED),
    ),
)
def retrieval(shard: pa.Table, settings: RetrievalSettings) -> CheckVerdicts:
    """The passages that a retriever found are the relevant ones: recall, precision or a measure of their order.

    The row's metadata names both, by ids that are texts or numbers: `{"retrieved": ["a", "b"], "relevant": ["a"]}`. An
    id that is found twice counts at its first place. `average_precision` is the sum of the precisions at the relevant
    passages found, over the number of relevant passages (at most `first`). `ndcg` is the sum of 1 / log2(rank + 1) over
    the relevant passages found, over the highest such sum. `reciprocal_rank` is 1 over the rank of the first relevant
    passage. A measure is 0 if no relevant passage is found. A row that names no relevant passage stays unscored.
    """
    values: list[float | None] = []
    reasons: list[str | None] = []
    for text in text_column(shard, "metadata").to_pylist():
        metadata = _parsed(text)
        retrieved, relevant = _ids(metadata, settings.retrieved), _ids(metadata, settings.relevant)
        missing = settings.relevant if not relevant else settings.retrieved if retrieved is None else None
        reasons.append(None if missing is None else f"no ids in metadata: {missing}")
        values.append(_measure(settings, retrieved, set(relevant)) if relevant and retrieved is not None else None)
    name = settings.measure.replace("_", " ")
    return judge_measures(pa.array(values, pa.float64()), settings, name, pa.array(reasons, pa.string()))


def _parsed(text: str | None) -> Any:
    try:
        return parse_json(text or "null")
    except NotJson:
        return None


def _ids(metadata: Any, path: str) -> list[str] | None:
    """Distinct ids at a path, in order; None if the path leads to no list of ids."""
    values = metadata
    for key in path.split("."):
        if isinstance(values, list):
            values = [value.get(key) if isinstance(value, dict) else None for value in values]
        else:
            values = values.get(key) if isinstance(values, dict) else None
    if not isinstance(values, list) or not all(_is_id(value) for value in values):
        return None
    return [*dict.fromkeys(map(str, values))]


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _measure(settings: RetrievalSettings, retrieved: Sequence[str], relevant: Set[str]) -> float:
    first_passages = retrieved[: settings.first]
    ranks = [
        rank for rank, passage in enumerate(first_passages, 1) if passage in relevant
    ]  # ranks of the relevant passages
    most = min(len(relevant), settings.first or len(relevant))
    match settings.measure:
        case "recall":
            return len(ranks) / len(relevant)
        case "precision":
            return len(ranks) / len(first_passages) if first_passages else 0.0
        case "average_precision":
            return sum(found_count / rank for found_count, rank in enumerate(ranks, 1)) / most
        case "reciprocal_rank":
            return 1 / ranks[0] if ranks else 0.0
        case "ndcg":
            gains = sum(1 / math.log2(rank + 1) for rank in ranks)
            return gains / sum(1 / math.log2(rank + 1) for rank in range(1, most + 1))
