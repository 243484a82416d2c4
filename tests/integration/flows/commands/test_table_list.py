"""`gradebook lake tables`, and the views of the last run of each rubric."""

from pathlib import Path

import pytest

from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.schema import list_tables
from tests.support.replicated_lake import make_rubric
from tests.support.scored_lake import make_lake, write_scores


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Two runs of rubric `kind`, the second worse, and before them one of rubric `brief`."""
    made = make_lake(tmp_path_factory.mktemp("latest"))
    for run_id, rubric_id, score in (("b-1", "brief", 0.5), ("k-1", "kind", 1.0), ("k-2", "kind", 0.0)):
        rubric = make_rubric(rubric_id, {"id": "tone", "weight": 1})
        write_scores(made, run_id, rubric, [{"case_id": "c", "scores": {"tone": score}}])
    return made


def test_types_and_meanings_are_those_of_a_lake(lake):
    query = "select table_name, column_name, data_type from duckdb_columns() where database_name = 'lake'"
    with connect(lake, read_only=True) as connection:
        made = {(table, column): kind for table, column, kind in connection.execute(query).fetchall()}
    listed = {(table.name, column.name): column.type for table in list_tables() for column in table.columns}
    assert listed == made


def test_a_lake_has_the_descriptions_as_comments(lake):
    tables = "select table_name, comment from duckdb_tables() where database_name = 'lake'"
    columns = "select column_name, comment from duckdb_columns() where database_name = 'lake' and table_name = 'runs'"
    with connect(lake, read_only=True) as connection:
        comments = dict(connection.execute(tables).fetchall())
        meanings = dict(connection.execute(columns).fetchall())
    described = {table.name: table for table in list_tables() if table.kind != "view"}
    assert comments == {name: table.description for name, table in described.items()}
    assert meanings == {column.name: column.meaning for column in described["runs"].columns}


def test_the_list_names_each_with_its_kind_and_one_line(gradebook):
    lines = gradebook("lake", "tables").out.splitlines()
    for name, kind, begin in (("runs", "table", "One"), ("run_scores", "mart", "One"), ("latest_runs", "view", "One")):
        (line,) = [line for line in lines if line.split()[:1] == [name]]
        assert line.split()[1:3] == [kind, begin]
    assert len(lines) == 2 + len(list_tables())


def test_a_table_is_shown_with_its_columns(gradebook):
    found = gradebook("lake", "tables", "run_scores", "--json").json
    assert (found["kind"], found["columns"][0]) == (
        "mart",
        {"name": "run_id", "type": "VARCHAR", "meaning": "The run."},
    )
    assert "mean" in gradebook("lake", "tables", "Run_Scores").out


def test_an_unknown_name_is_refused(gradebook):
    finished = gradebook("lake", "tables", "scores")
    assert (finished.code, finished.out) == (2, "")
    assert "found 'scores', expected a name that `gradebook lake tables` lists" in finished.err


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("select rubric_id, run_id, mean from latest_run_scores", [("brief", "b-1", 0.5), ("kind", "k-2", 0.0)]),
        ("select rubric_id, run_id, score from latest_output_scores", [("brief", "b-1", 0.5), ("kind", "k-2", 0.0)]),
        ("select rubric_id, run_id from latest_criterion_scores", []),  # these runs have no rows in that mart
    ],
)
def test_the_latest_run_of_each_rubric_is_read(lake, query, rows):
    with connect(lake, read_only=True) as connection:
        assert connection.execute(f"{query} order by all").fetchall() == rows


def test_an_earlier_version_has_the_latest_runs_of_its_time(lake, gradebook):
    words = ("sql", "select run_id from latest_run_scores order by all", "--format", "csv", "--at", "k-1")
    assert gradebook(*words, "--lake", f"sqlite:{Path(lake.address)}").out.split() == ["run_id", "b-1", "k-1"]


@pytest.mark.parametrize(
    ("view", "begin"),
    [
        ("latest_run_scores", "rubric_id,model,checkpoint,mean,ci_low"),
        ("latest_criterion_scores", "rubric_id,model,checkpoint,criterion_id,mean"),
        ("latest_output_scores", "rubric_id,case_id,model,checkpoint,score"),
    ],
)
def test_the_views_begin_with_names_and_scores_and_end_with_the_run(gradebook, lake, view, begin):
    heading, *_ = gradebook(
        "sql", f"from {view}", "--format", "csv", "--lake", f"sqlite:{Path(lake.address)}"
    ).out.splitlines()
    assert heading.startswith(begin) and heading.endswith(",run_id")
