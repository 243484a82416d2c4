"""The check retrieval, by hand."""

import json
import math

import pyarrow as pa
import pytest

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.registry import find_check
from tests.support.law_over import law_over


def measured(metadata: object, **settings: object) -> tuple[str | None, str | None]:
    """Evidence and reason."""
    check = find_check("retrieval")
    text = metadata if isinstance(metadata, str) or metadata is None else json.dumps(metadata)
    found = check.function(
        pa.table({"metadata": pa.array([text], pa.string())}), read_settings(check, {"min": 0, **settings})
    )
    return found.evidence[0].as_py(), None if found.reasons is None else found.reasons[0].as_py()


# b and d of the five found are relevant, e is not found
RANKED = {"retrieved": ["a", "b", "c", "d", "b"], "relevant": ["b", "d", "e"]}


@law_over(
    ("measure", "first", "expected"),
    [
        ("recall", None, 2 / 3),
        ("recall", 2, 1 / 3),
        ("precision", None, 2 / 4),
        ("precision", 3, 1 / 3),
        ("average_precision", None, (1 / 2 + 2 / 4) / 3),
        ("average_precision", 2, (1 / 2) / 2),
        ("reciprocal_rank", None, 1 / 2),
        ("reciprocal_rank", 1, 0),
        ("ndcg", 2, (1 / math.log2(3)) / (1 + 1 / math.log2(3))),
    ],
)
def test_measures_of_a_ranking(measure: str, first: int | None, expected: float):
    evidence, reason = measured(RANKED, measure=measure, first=first)
    assert reason is None
    assert float(str(evidence).rpartition(" ")[2]) == pytest.approx(expected, abs=1e-6)


def test_ids_are_found_in_objects_and_may_be_numbers():
    metadata = {"search": {"hits": [{"id": 7}, {"id": 8}]}, "gold": [8]}
    assert measured(metadata, retrieved="search.hits.id", relevant="gold", measure="precision")[0] == "precision 0.5"


@law_over(
    ("metadata", "missing"),
    [
        (None, "relevant"),
        ("no JSON", "relevant"),
        ([], "relevant"),
        ({"retrieved": ["a"], "relevant": []}, "relevant"),
        ({"retrieved": ["a"], "relevant": "a"}, "relevant"),
        ({"relevant": ["a"]}, "retrieved"),
        ({"relevant": ["a"], "retrieved": [{"id": "a"}]}, "retrieved"),
        ({"relevant": ["a"], "retrieved": [True]}, "retrieved"),
    ],
)
def test_without_ids_nothing_is_measured(metadata: object, missing: str):
    assert measured(metadata) == (None, f"no ids in metadata: {missing}")


def test_a_retriever_that_finds_nothing_has_zero():
    assert measured({"retrieved": [], "relevant": ["a"]}, measure="precision")[0] == "precision 0"
