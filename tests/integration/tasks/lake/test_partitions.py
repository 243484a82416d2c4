"""What a question reads: of the large tables the files of the runs that it asks for alone."""

import re

import pytest

from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.user_queries import run_query
from tests.support.nightly import matrix
from tests.support.scored_lake import make_lake, write_scores

LEVELS = [{"id": "bad", "score": 0.0}, {"id": "good", "score": 1.0}]
TONE = {"id": "tone", "description": "?", "method": {"type": "ratings"}, "levels": LEVELS}
RUBRIC = Rubric.model_validate({"id": "reply", "version": "1.0.0", "criteria": [TONE]})
# More rows than the catalog itself holds, so that each run has a file.
OUTPUT_COUNT = 250


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Three runs with a file each of verdicts and scores."""
    made = make_lake(tmp_path_factory.mktemp("partitions"))
    for run_id in "abc":
        rows = [{"case_id": f"c{number}", "scores": {"tone": number % 2}} for number in range(OUTPUT_COUNT)]
        write_scores(made, run_id, RUBRIC, rows)
    return made


def files_read(lake: Lake, query: str) -> int:
    """Data files that a query opened, as `explain analyze` tells."""
    (row,) = run_query(lake, f"explain analyze {query}").to_pylist()
    return sum(int(count) for count in re.findall(r"Total Files Read: (\d+)", str(row)))


@pytest.mark.parametrize(
    "query",
    [
        "select avg(score) from verdicts where run_id = 'b'",
        *matrix(
            [
                "select criterion_id, avg(score) from verdicts where run_id = 'b' group by criterion_id",
                "from output_scores where run_id = 'b'",
                "from worst_outputs where run_id = 'b'",
                "select avg(score) from verdicts where run_id = (select max(run_id) from runs)",
            ]
        ),
    ],
)
def test_a_question_about_a_run_reads_its_file_alone(lake, query):
    assert files_read(lake, query) == 1


def test_a_question_about_all_runs_reads_them_all(lake):
    assert files_read(lake, "select run_id, avg(score) from verdicts group by run_id") == 3
