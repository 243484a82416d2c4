"""Cases of the same id that differ between two runs: said in the banner, with how many."""

import json
from typing import Any

import pyarrow as pa
import pytest

from gradebook.rubrics.files.case_criteria import CASE_CRITERIA_SCHEMA
from gradebook.rubrics.files.load import parse_rubric
from gradebook.tasks.comparing.compare import ComparisonOptions, compare_runs
from gradebook.tasks.lake.address import Lake
from tests.support.scored_lake import VERDICT_SCHEMA, make_lake, write_run

RUBRIC = """
id: words
version: 1.0.0
criteria:
  - {id: brief, description: At most 5 words., method: {type: check, check: length_words, settings: {max: 5}}}
"""


def chat(system: str, question: str = "q") -> str:
    return json.dumps([{"role": "system", "content": system}, {"role": "user", "content": question}])


FIRST: dict[str, Any] = {"prompt": chat("be brief"), "context": ["a passage"], "reference": "yes"}
CASES = 4


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Runs of four cases; run `a` has them as `FIRST`, and the others some of them in another way."""
    lake = make_lake(tmp_path_factory.mktemp("lake"))
    others: dict[str, list[dict[str, Any]]] = {
        "a": [],
        "same": [],
        "system": [{"prompt": chat("be kind")}] * 2,
        "prompt": [{"prompt": chat("be brief", "another")}, {"prompt": "plain text"}, {"prompt": None}],
        "rest": [{"context": ["another"]}, {"context": None, "reference": "no"}],
    }
    for run_id, changes in others.items():
        rows = [FIRST | change for change in [*changes, *[{}] * (CASES - len(changes))]]
        named = [
            {"output_id": f"{run_id}/{case}", "case_id": f"c{case}", "model": "m", "sample_index": 0, "output": run_id}
            for case in range(CASES)
        ]
        verdicts = [
            {"output_id": row["output_id"], "criterion_id": "brief", "status": "scored", "score": 1.0} for row in named
        ]
        outputs = pa.Table.from_pylist([row | more for row, more in zip(named, rows, strict=True)])
        tables = pa.Table.from_pylist(verdicts, VERDICT_SCHEMA), CASE_CRITERIA_SCHEMA.empty_table()
        write_run(lake, run_id, parse_rubric(RUBRIC, "rubric.yaml"), outputs, *tables)
    return lake


@pytest.mark.parametrize(
    ("run_id", "words"),
    [
        ("same", None),
        ("system", "2 of 4 common cases have another system message"),
        # a text without messages has no system message either
        ("prompt", "3 of 4 common cases have another prompt, 2 another system message"),
        ("rest", "2 of 4 common cases have other context, 1 another reference"),
    ],
)
def test_the_banner_says_how_many_cases_were_asked_in_another_way(lake, run_id, words):
    expected = words and f"The cases of B differ from those of A: {words}."
    assert compare_runs(lake, "a", run_id, ComparisonOptions(resample_count=0)).banner == expected
