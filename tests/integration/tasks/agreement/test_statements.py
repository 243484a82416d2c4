"""Whose ratings a published run has: those of what it holds its outputs to, the overall row among that."""

from datetime import UTC, datetime

import pytest

from gradebook.rubrics.files.load import parse_rubric
from gradebook.tasks.agreement.published_run import known_criteria, measure_run
from gradebook.tasks.agreement.statements import add_statements_of_run
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import commit, connect, prepare_lake
from gradebook.tasks.rubric_store.versions import store_rubric

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
