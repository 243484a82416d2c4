"""The shipped example of agents' runs: every reply fits its run, and the questions have answers."""

import shutil
from importlib.resources import files
from pathlib import Path

import pytest

from gradebook.flows.commands.demo import _questions
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.user_queries import run_query
from tests.support.published_runs import publish

DEMO = Path(str(files("gradebook.examples"))) / "agent_runs"


@pytest.mark.nightly
def test_all_runs_are_scored_by_all_criteria(tmp_path: Path):
    runs = Path(shutil.copy(DEMO / "runs.jsonl", tmp_path))
    publish(runs, Path("agent_task"), judge=f"replay:{DEMO / 'replies.jsonl'}", trace_format="chat")
    lake = find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")
    with connect(lake, read_only=True) as connection:
        found = connection.execute("select count(*), count(score), count(distinct output_id) from verdicts").fetchall()
        unquoted = connection.execute("select * from verdicts where reason is not null").fetchall()
        failed = connection.execute("select count(*) from output_scores where len(failed_gates) > 0").fetchall()
    assert (found, unquoted, failed) == ([(180, 180, 30)], [], [(5,)])
    answers = [run_query(lake, query).num_rows for _, query in _questions(DEMO / "questions.sql")]
    assert answers == [2, 3, 5]
