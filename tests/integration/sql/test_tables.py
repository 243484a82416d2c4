"""Tables of columns.yml in a real DuckLake, compared with the views, the Parquet files and the marts."""

from collections.abc import Iterator
from importlib.resources import files

import duckdb
import pyarrow as pa
import pytest

from gradebook.rubrics.files.tables import LEVELS_SCHEMA
from gradebook.rubrics.model.outputs import QUARANTINE_SCHEMA, SHARD_SCHEMA
from gradebook.rubrics.model.verdicts import JUDGMENT_SCHEMA, OPINION_SCHEMA, VERDICT_SCHEMA
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import connect, prepare_lake
from gradebook.tasks.lake.schema import KNOWN_VIEWS, make_tables, make_views
from gradebook.tasks.lake.sql import declared_tables
from gradebook.tasks.marts.models import mart_names
from gradebook.tasks.methods.claims import CLAIM_SCHEMA, CLAIM_VERDICT_SCHEMA
from gradebook.tasks.methods.preference import PREFERENCE_SCHEMA
from gradebook.tasks.methods.similarity import SIMILARITY_SCHEMA
from gradebook.tasks.methods.steps import STEP_OPINION_SCHEMA, STEP_VERDICT_SCHEMA
from gradebook.tasks.ratings.rating_session import PAGE_COLUMNS, STEP_DECISIONS_SCHEMA
from gradebook.tasks.ratings.run_ratings import RATING_SCHEMA
from gradebook.tasks.ratings.tables import CLAIM_RATINGS_SCHEMA, GIVEN_STEPS_SCHEMA
from gradebook.tasks.scoring.feedback import FEEDBACK_SCHEMA
from gradebook.tasks.stages.quality import QUALITY_SCHEMA
from tests.support.law_over import law_over

MARTS = [
    *("output_scores", "criterion_scores", "category_scores", "run_scores", "score_distribution", "stage_costs"),
    *("judge_noise", "agreement", "audited_scores", "run_comparisons", "weak_spots"),
]
WRITTEN = [
    *("runs", "outputs", "rubrics", "criteria", "judgments", "verdicts", "opinions", "claim_verdicts", "claim_ratings"),
    *("ratings", "quality_results", "quarantine", "levels", "rubric_pointers", "case_criteria", "written_feedback"),
    *("checkpoints", "rubric_states", "artifacts", "adjudications", "preferences", "claims", "similarities"),
    *(
        "judged_preferences",
        "step_ratings",
        "step_verdicts",
        "step_opinions",
        "step_adjudications",
        "anchors",
        "anchor_verdicts",
        "judge_drift",
        "rubric_links",
        "outcomes",
        "reference_runs",
    ),
]
TABLES = [*WRITTEN, *MARTS, *KNOWN_VIEWS]
PARQUET = {
    "outputs": SHARD_SCHEMA,
    "verdicts": VERDICT_SCHEMA,
    "judgments": JUDGMENT_SCHEMA,
    "opinions": OPINION_SCHEMA,
    "claims": CLAIM_SCHEMA,
    "claim_verdicts": CLAIM_VERDICT_SCHEMA,
    "claim_ratings": CLAIM_RATINGS_SCHEMA,
    "similarities": SIMILARITY_SCHEMA,
    "judged_preferences": PREFERENCE_SCHEMA,
    "quarantine": QUARANTINE_SCHEMA,
    "ratings": pa.schema([*RATING_SCHEMA, *PAGE_COLUMNS]),
    "step_verdicts": STEP_VERDICT_SCHEMA,
    "step_opinions": STEP_OPINION_SCHEMA,
    "step_adjudications": STEP_DECISIONS_SCHEMA,
    "step_ratings": GIVEN_STEPS_SCHEMA.set(3, pa.field("step_index", pa.int32())),
    "quality_results": QUALITY_SCHEMA,
    "written_feedback": FEEDBACK_SCHEMA,
    "levels": LEVELS_SCHEMA,
}
DECLARED = declared_tables()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """New DuckLake with its tables."""
    place = find_lake(f"sqlite:{tmp_path_factory.mktemp('lake')}/catalog.sqlite")
    prepare_lake(place)
    with connect(place) as connection:
        yield connection


def columns_of(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, str]:
    return {name: kind for name, kind, *_ in connection.execute(f"describe {table}").fetchall()}


def test_the_lake_has_the_documented_tables(lake):
    assert {name for (name,) in lake.execute("show tables").fetchall()} == set(TABLES)


@pytest.mark.parametrize("make", [make_tables, make_views])
def test_the_tables_and_views_can_be_made_twice(lake, make):
    make(lake)
    assert len(lake.execute("show tables").fetchall()) == len(TABLES)


def test_every_view_file_is_a_view():
    assert sorted(KNOWN_VIEWS) == sorted(
        entry.name.removesuffix(".sql") for entry in files("gradebook.sql").joinpath("views").iterdir()
    )


def test_every_table_is_explained():
    assert set(DECLARED) == set(TABLES)


@law_over("table", TABLES)
def test_every_column_is_explained_in_its_order(lake, table):
    assert [*DECLARED[table].columns] == [*columns_of(lake, table)]


@law_over("table", TABLES)
def test_every_explanation_is_a_sentence(table):
    texts = [DECLARED[table].description, *DECLARED[table].columns.values()]
    assert [text for text in texts if not (isinstance(text, str) and text.endswith((".", "...")))] == []


@law_over("table", PARQUET)
def test_a_table_has_the_columns_and_types_of_its_files(lake, table):
    with duckdb.connect() as memory:
        memory.register("written", pa.Table.from_pylist([], schema=PARQUET[table]))
        assert columns_of(memory, "written") == columns_of(lake, table)


def test_the_lake_has_all_marts_with_their_columns_and_types(lake, build):
    connection = build({"tone": {}}, {"o": {"tone": 1.0}})
    assert {*mart_names()} == {*MARTS}
    assert {mart: columns_of(connection, mart) for mart in MARTS} == {mart: columns_of(lake, mart) for mart in MARTS}


def test_a_built_mart_can_be_inserted_unchanged(lake, build, tmp_path):
    file = tmp_path / "run_scores.parquet"
    build({"tone": {}}, {"o": {"tone": 1.0}}).execute(f"copy run_scores to '{file}'")
    lake.execute("insert into run_scores by name from read_parquet(?)", [str(file)])
    assert lake.execute("select run_id, model, n, mean from run_scores").fetchall() == [("run", "m", 1, 1.0)]
