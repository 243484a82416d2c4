"""Section "Over time": joined means, and sentences about them."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.rows import Row, model_name, read_rows
from gradebook.tasks.lake.schema import make_tables, make_views
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.reporting.charts import Colour
from gradebook.tasks.reporting.report_source import Group, ReportSource
from gradebook.tasks.reporting.sections.history import MOST_RUNS, HistoryContents, Points, read_history, read_points

START = datetime(2026, 11, 1, 2, 30, tzinfo=UTC)
Read = Callable[..., Any]


def night(number: int, mean: float | None, **changes: Any) -> Row:
    """Run of a model. cases: of its outputs; others: means of other models; also: means of more checkpoints."""
    row = {"run_id": f"night-{number}", "version": number, "model": "m", "checkpoint": f"step-{number}", "mean": mean}
    row |= {"rubric_version": "1.0.0", "judge": "small", "cases": ("c1", "c2"), "others": {}, "also": {}}
    return row | changes


@pytest.fixture(scope="module")
def tables() -> Iterator[duckdb.DuckDBPyConnection]:
    """The lake's tables and views, in memory."""
    with duckdb.connect() as connection:
        make_tables(connection)
        make_views(connection)
        yield connection


def fill(connection: duckdb.DuckDBPyConnection, nights: Sequence[Row]) -> None:
    for table in ("runs", "criteria", "run_scores", "criterion_scores", "output_scores"):
        connection.execute(f"delete from {table}")
    add(connection, "criteria", [criterion(version) for version in {row["rubric_version"] for row in nights}])
    add(connection, "runs", [run_row(row) for row in nights])
    scores = [each for row in nights for each in mean_rows(row)]
    add(connection, "run_scores", scores)
    add(connection, "criterion_scores", [row | {"criterion_id": "tone"} for row in scores])
    cases = [each | {"case_id": case} for row in nights for each in mean_rows(row) for case in row["cases"]]
    add(connection, "output_scores", [{name: each[name] for name in OUTPUT} for each in cases])


OUTPUT = ("run_id", "model", "checkpoint", "case_id")


def add(connection: duckdb.DuckDBPyConnection, table: str, rows: list[Row]) -> None:
    connection.register("given", pa.Table.from_pylist(rows))
    connection.execute(f"insert into {table} by name from given")
    connection.unregister("given")


def criterion(version: str) -> Row:
    """Criterion with one text in all versions 1.x, and another in version 2."""
    named = {"rubric_id": "reply", "rubric_version": version, "criterion_id": "tone", "position": 0}
    return named | {"method": "judge", "digest": version[0], "weight": 1.0, "is_gate": False}


def run_row(row: Row) -> Row:
    named = {name: row[name] for name in ("run_id", "version", "rubric_version", "judge")}
    finished_at = START + timedelta(days=row["version"])
    digests = {"rubric_digest": row["rubric_version"], "dataset_digest": row["run_id"]}
    return named | digests | {"status": "published", "rubric_id": "reply", "finished_at": finished_at}


def mean_rows(row: Row) -> list[Row]:
    """Means of the run: of its model, other models and more checkpoints."""
    found = [(row["model"], row["checkpoint"], row["mean"])]
    found += [(model, row["checkpoint"], mean) for model, mean in row["others"].items()]
    found += [(row["model"], checkpoint, mean) for checkpoint, mean in row["also"].items()]
    return [
        {"run_id": row["run_id"], "model": model, "checkpoint": checkpoint, "mean": mean, "n": 2, "output_count": 2}
        | ({"ci_low": None, "ci_high": None} if mean is None else {"ci_low": mean - 0.05, "ci_high": mean + 0.05})
        for model, checkpoint, mean in found
    ]


@pytest.fixture
def read(tables: duckdb.DuckDBPyConnection, tmp_path: Path) -> Read:
    """Apply a reader of sections to the last of these runs, or to the run named."""

    def call(reader: Callable[[ReportSource], Any], *nights: Row, run_id: str | None = None) -> Any:
        fill(tables, nights)
        wanted = run_id or nights[-1]["run_id"]
        (run,) = read_rows(tables, "from runs where run_id = ?", wanted)
        scores = read_rows(tables, "from run_scores where run_id = ? order by mean desc nulls last", wanted)
        criteria = read_rows(tables, "from criteria where rubric_version = ?", run["rubric_version"])
        groups = tuple(group(row, number) for number, row in enumerate(scores, 1))
        summary = RunSummary(run, scores, (), (), (), (), False, ())
        lake = find_lake(f"sqlite:{tmp_path}/catalog.sqlite")  # never opened
        return reader(ReportSource(tables, lake, summary, groups, None, None, criteria, ()))

    return call


def group(row: Row, number: int) -> Group:
    return Group(row["model"], row["checkpoint"], model_name(row), model_name(row), Colour(f"c{number}"))


def reading(contents: HistoryContents, figure: int = 0) -> str:
    return contents.figures[figure].sentence


def joined(points: Points) -> list[bool]:
    return [point.is_joined for point in points.values()]


def test_a_first_run_has_no_history(read: Read):
    assert read(read_history, night(1, 0.5)) is None


def test_the_sentence_has_a_models_change_and_its_last_change(read: Read):
    contents = read(read_history, night(1, 0.59), night(2, 0.84), night(3, 0.86))
    assert reading(contents) == "m rose from 0.590 (night-1) to 0.860 (night-3); the last change is +0.020."


def test_two_runs_have_no_separate_last_change(read: Read):
    assert (
        reading(read(read_history, night(1, 0.5), night(2, 0.4))) == "m fell from 0.500 (night-1) to 0.400 (night-2)."
    )


def test_a_change_too_small_for_the_shown_digits_is_no_change(read: Read):
    assert reading(read(read_history, night(1, 0.5), night(2, 0.5001))) == "m stayed at 0.500 (night-1)."
    assert reading(read(read_history, night(1, 0.6996), night(2, 0.7004))) == "m stayed at 0.700 (night-1)."


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"judge": "big"}, "the judge from small to big"),
        ({"rubric_version": "1.1.0"}, "the rubric from 1.0.0 to 1.1.0"),
        ({"cases": ("c1", "c3")}, "the cases"),
    ],
)
def test_a_run_with_another_judge_rubric_or_cases_is_not_joined(read: Read, change: Row, words: str):
    nights = night(1, 0.5), night(2, 0.6, **change), night(3, 0.7, **change)
    assert reading(read(read_history, *nights)) == (
        f"m rose from 0.600 (night-2) to 0.700 (night-3). Not joined where something else changed: {words} at night-2."
    )


def test_a_break_is_drawn_between_the_runs(read: Read):
    contents = read(read_history, night(1, 0.5), night(2, 0.6, judge="big"))
    assert 'data-tip="not comparable: the judge from small to big"' in str(contents.figures[0].svg)


def test_a_run_without_a_comparable_earlier_run_is_reported(read: Read):
    contents = read(read_history, night(1, 0.5), night(2, 0.6, judge=None))
    assert "m has a mean of 0.600; no earlier run is comparable." in reading(contents)
    assert "the judge from small to none at night-2" in reading(contents)


def test_later_runs_and_other_models_are_left_out(read: Read):
    nights = night(1, 0.5), night(2, 0.6), night(3, 0.7), night(4, 0.9, model="other")
    points = read(read_points, *nights, run_id="night-2")
    assert [point.run_id for point in points.values()] == ["night-1", "night-2"]


def test_only_the_last_runs_are_read(read: Read):
    points = read(read_points, *(night(number, 0.5) for number in range(1, MOST_RUNS + 5)))
    assert (len(points), next(iter(points))[0]) == (MOST_RUNS, "night-5")
    assert joined(points) == [False] + [True] * (MOST_RUNS - 1)  # the run before the first one is not on the page


def test_checkpoints_of_one_run_are_in_the_order_of_their_steps(read: Read):
    first, second = night(1, 0.5, checkpoint="step-100"), night(2, 0.6, checkpoint="step-1000")
    points = read(read_points, first, second | {"also": {"step-900": 0.55, "base": 0.4}})
    assert [point.checkpoint for point in points.values()] == ["step-100", "base", "step-900", "step-1000"]
    assert [point.before and point.before[2] for point in points.values()] == [None, "step-100", "base", "step-900"]
    assert [point.place for point in points.values()] == [1, 2, 3, 4]


def test_an_unknown_mean_is_not_drawn_and_not_0(read: Read):
    contents = read(read_history, night(1, 0.5), night(2, None), night(3, 0.75))
    assert "night-2" not in str(contents.figures[0].svg)
    assert [row[7] for row in contents.figures[0].table.rows] == ["0.750", "–", "0.500"]


def test_models_without_any_mean_have_no_pictures(read: Read):
    assert read(read_history, night(1, None), night(2, None)).figures == ()


def test_the_criterion_that_moved_most_is_named(read: Read):
    contents = read(read_history, night(1, 0.5), night(2, 0.75))
    assert reading(contents, 1) == (
        "Since the run before, tone moved most: for m @ step-2 it rose from 0.500 to 0.750."
    )


@pytest.mark.parametrize(
    ("mean", "words"),
    [
        (0.7001, "No criterion's mean moved since the run before."),
        (0.7004, "No criterion's mean moved since the run before."),
        (0.6994, "it fell from 0.700 to 0.699."),
    ],
)
def test_a_criterions_change_too_small_for_the_shown_digits_is_no_change(read: Read, mean: float, words: str):
    assert reading(read(read_history, night(1, 0.7), night(2, mean)), 1).endswith(words)


def test_a_change_between_means_with_equal_digits_is_given_as_a_difference(read: Read):
    assert reading(read(read_history, night(1, 0.6996), night(2, 0.7003)), 1).endswith("it rose by 0.001 to 0.700.")


def test_a_criterion_with_unchanged_text_is_joined_across_rubric_versions(read: Read):
    same = read(read_history, night(1, 0.5), night(2, 0.75, rubric_version="1.1.0"))
    assert "rose from 0.500 to 0.750" in reading(same, 1)


def test_a_criterion_with_changed_text_is_not_joined(read: Read):
    contents = read(read_history, night(1, 0.5), night(2, 0.75, rubric_version="2.0.0"))
    assert reading(contents, 1) == "No criterion can be compared with the run before."


def test_of_many_models_the_highest_are_named_and_the_others_counted(read: Read):
    others = {f"m{number}": 0.1 * number for number in range(1, 5)}
    contents = read(read_history, night(1, 0.9, others=others), night(2, 0.8, others=others))
    assert "The table has 2 more." in reading(contents)
    assert len(contents.figures[0].table.rows) == 10


def test_hostile_names_stay_text(read: Read):
    hostile = {"model": "</script><script>x", "checkpoint": "datum.place || '<b>'"}
    contents = read(read_history, night(1, 0.5, **hostile), night(2, 0.6, **hostile))
    assert "<script>" not in str(contents.figures[0].svg)
    assert "<b>" not in str(contents.figures[0].svg)
