"""Whose ratings a published run has: those of what it holds its outputs to, the overall row among that."""

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradebook.rubrics.files.case_criteria import CASE_CRITERIA_SCHEMA
from gradebook.rubrics.files.load import parse_rubric
from gradebook.tasks.agreement.mart import add_statements_of_files, add_statements_of_run
from gradebook.tasks.agreement.published_run import known_criteria, measure_run
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import commit, connect, prepare_lake
from gradebook.tasks.lake.sql import open_database
from gradebook.tasks.ratings.run_ratings import match_ratings
from gradebook.tasks.rubric_store.versions import store_rubric
from gradebook.tasks.workspace.folder import RunFolder

TEXT = """
id: rated
version: {version}
criteria:
  - id: tone
    description: Is it kind?
    method: {{type: ratings}}
    levels: [{{id: bad, score: 0}}, {{id: good, score: 1}}]
"""
WITH_OVERALL = parse_rubric(TEXT.format(version="1.0.0") + "overall: {scale: {min: 1, max: 5}}\n", "rubric.yaml")
WITHOUT = parse_rubric(TEXT.format(version="1.1.0"), "rubric.yaml")
SAID = "select output_id, side, who, score from statements where side <> 'judge'"
# on the overall row, a criterion of another rubric, and one that o brought along and p did not
RATED = [("overall", "2", 0.9), ("gone", None, 0.5), ("own", None, 0.5)]


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Runs r and s over outputs o and p, with and without the overall row; ann and bob rated both outputs."""
    found = find_lake(f"sqlite:{tmp_path_factory.mktemp('said')}/catalog.sqlite")
    prepare_lake(found)
    commit(found, "rated", _fill)
    return found


def _fill(connection, _version):
    for place, (run_id, rubric) in enumerate((("r", WITH_OVERALL), ("s", WITHOUT)), start=1):
        store_rubric(connection, rubric, datetime(2026, 11, 1, tzinfo=UTC))
        connection.execute(
            "insert into runs by name select ? as run_id, 'published' as status, ? as version, "
            "'rated' as rubric_id, ? as rubric_version",
            [run_id, place, rubric.version],
        )
        connection.execute(
            "insert into case_criteria by name select ? as run_id, 'o' as output_id, 'own' as criterion_id", [run_id]
        )
        connection.execute(
            "insert into output_scores by name select ? as run_id, unnest(['o', 'p']) as output_id", [run_id]
        )
    for criterion, level, score in RATED:
        connection.execute(
            "insert into ratings by name select o.output_id, ? as criterion_id, r.rater, ? as level_id, ? as score "
            "from (select unnest(['o', 'p']) as output_id) as o, (select unnest(['ann', 'bob']) as rater) as r",
            [criterion, level, score],
        )


@pytest.mark.parametrize(("run_id", "known"), [("r", ["overall", "own", "tone"]), ("s", ["own", "tone"])])
def test_the_overall_row_is_among_what_may_be_asked_for(lake, run_id, known):
    with connect(lake, read_only=True) as connection:
        assert known_criteria(connection, run_id) == known


def test_a_rating_of_another_criterion_or_of_another_outputs_own_one_is_none_of_the_run(lake):
    with connect(lake, read_only=True) as connection:
        add_statements_of_run(connection, "s")
        found = connection.execute(
            "select distinct criterion_id, output_id from latest_ratings order by all"
        ).fetchall()
    assert found == [("own", "o")]


def test_a_level_of_the_overall_row_is_worth_what_the_rubric_gives_it(lake):
    # 2 of 1..5: (2 - 1) / (5 - 1); kept with 0.9
    (found,) = [part for part in measure_run(lake, "r").parts if part.kind == "raters" and part.rater == "ann"]
    assert (found.criterion_id, found.levels) == ("overall", (0.0, 0.25, 0.5, 0.75, 1.0))
    assert found.confusion[1][1] == 2


@pytest.mark.parametrize("has_file", [True, False])  # a run has a file of ratings if it may score by them
def test_a_run_counts_at_publication_what_its_page_counts_then(lake, tmp_path, has_file):
    """A decision replaces what raters said, and a rater who saw the judge does not count."""
    outputs = pa.table({"output_id": ["o", "p"], "cluster": [None, None], "case_id": ["c1", "c2"]})

    def rate(connection, _version):
        for rater, level, selection in (("ann", "good", None), ("cat", "bad", None), ("dan", "bad", "judge_shown")):
            connection.execute(
                "insert into ratings by name select unnest(['o', 'p']) as output_id, 'tone' as criterion_id, "
                "? as rater, ? as level_id, ?::double as score, ? as selection, 'file' as source",
                [rater, level, float(level == "good"), selection],
            )
        connection.execute(
            "insert into adjudications by name select 's' as run_id, 'o' as output_id, 'tone' as criterion_id, "
            "'lea' as adjudicator, 'good' as level_id, 1.0 as score, now() as decided_at"
        )

    commit(lake, "rate", rate)
    with connect(lake, read_only=True) as connection:
        add_statements_of_run(connection, "s")
        current = connection.execute(f"{SAID} and criterion_id = 'tone' order by all").fetchall()
    assert {(side, who) for _, side, who, _ in current} == {("rater", "ann"), ("rater", "cat"), ("settled", "")}
    folder = RunFolder(tmp_path)
    if has_file:
        columns = {"checkpoint": pa.nulls(2, pa.string()), "model": ["m", "m"], "sample_index": [0, 0]}
        for name, values in columns.items():
            outputs = outputs.append_column(name, pa.array(values))
        pq.write_table(outputs, tmp_path / "shard.parquet")
        match_ratings(lake, folder, WITHOUT, (str(tmp_path / "shard.parquet"),), None)
    with open_database() as connection:
        connection.execute(
            "create table source_verdicts (output_id varchar, criterion_id varchar, method varchar, "
            "status varchar, level_id varchar, score double, reason varchar)"
        )
        connection.execute(
            "create table source_opinions (output_id varchar, criterion_id varchar, judge varchar, "
            "replicate int, is_swapped boolean, status varchar, level_id varchar, score double)"
        )
        connection.register("source_outputs", outputs)
        connection.register("source_case_criteria", CASE_CRITERIA_SCHEMA.empty_table())
        assert add_statements_of_files(connection, lake, folder, WITHOUT)
        assert connection.execute(f"{SAID} order by all").fetchall() == current
