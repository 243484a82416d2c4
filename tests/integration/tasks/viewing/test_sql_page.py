"""The page of SQL: rows as table, chart and file; and what a statement may not do."""

import csv
import io
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from markupsafe import escape
from starlette.testclient import TestClient

from gradebook.rubrics.model.errors import QueryError
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import prepare_lake
from gradebook.tasks.lake.sql import list_questions
from gradebook.tasks.viewing.sql_page import MOST_STATEMENT, QueryRunner, draw_rows
from tests.support.hostile_run import TEXTS, UNSEEN
from tests.support.nightly import nightly
from tests.support.viewed import start_tags, viewer

SECRET = "the-secret-of-another-file"
# FOLDER has a text, a CSV, a SQLite database and a Parquet file with the secret; each statement wants it, or to write.
READING = (
    "from read_text('FOLDER/secret.csv')",
    "from 'FOLDER/secret.csv'",
    "from 'FOLDER/secret.parquet'",
    "from sqlite_scan('FOLDER/secret.sqlite', 'secrets')",
    "select * from read_csv('FOLDER/secret.csv')",
    "select (select content from read_blob('FOLDER/secret.csv'))",
    "from parquet_scan(['FOLDER/secret.parquet'])",
    "from glob('FOLDER/*')",
    "from query('from read_text(''FOLDER/secret.csv'')')",
    "from query_table('FOLDER/secret.csv')",
    "with a as materialized (from read_json('FOLDER/secret.csv')) from a",
    "select getenv('HOME')",
    "select current_setting('memory_limit')",
    "from duckdb_settings()",
    "from duckdb_secrets()",
    "from duckdb_databases",
    "from __ducklake_metadata_lake.ducklake_data_file",
    "explain analyze from read_text('FOLDER/secret.csv')",
    "/* select 1 */ from read_text('FOLDER/secret.csv') -- select 1",
    "pragma database_list",
    "from json_execute_serialized_sql(json_serialize_sql('from read_text(''FOLDER/secret.csv'')'))",
)
WRITING = (
    "select 1; drop table runs",
    "attach 'FOLDER/new.db' as other",
    "attach 'FOLDER/secret.sqlite' as other (type sqlite)",
    "install httpfs",
    "load httpfs",
    "set memory_limit = '100GB'",
    "set enable_external_access = true",
    "reset lock_configuration",
    "copy (select 1) to 'FOLDER/written.csv'",
    "copy runs from 'FOLDER/secret.csv'",
    "export database 'FOLDER/exported'",
    "insert into runs (run_id) values ('x')",
    "update runs set notes = 'x'",
    "delete from runs",
    "drop table runs",
    "create view v as select 1",
    "create table t as select 1",
    "create temp macro m() as 1",
    "explain analyze delete from runs",
    "call ducklake_expire_snapshots('lake')",
    "vacuum",
    "checkpoint",
    "begin",
    "use memory",
    "detach lake",
    "prepare p as select 1",
)
TRIES = (*READING, *WRITING)
DAILY = (READING[0], READING[17], WRITING[0], WRITING[1], WRITING[8])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty lake, and files with a secret beside it."""
    folder = tmp_path_factory.mktemp("sql_page")
    prepare_lake(find_lake(f"sqlite:{folder}/lake/catalog.sqlite"))
    (folder / "secret.csv").write_text(f"secret\n{SECRET}\n", encoding="utf-8")
    pq.write_table(pa.table({"secret": [SECRET]}), folder / "secret.parquet")
    with closing(sqlite3.connect(folder / "secret.sqlite")) as other:
        other.execute(f"create table secrets as select '{SECRET}' as secret")
        other.commit()
    return folder


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    with viewer(find_lake(f"sqlite:{folder}/lake/catalog.sqlite")) as client:
        yield client


def files_of(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("statement", [*DAILY, *nightly([each for each in TRIES if each not in DAILY])])
def test_a_statement_that_does_more_than_read_the_lake_is_refused(client: TestClient, folder: Path, statement: str):
    before = files_of(folder)
    for address, values in (("/sql", {}), ("/sql/rows", {"form": "csv"})):
        answer = client.get(address, params={"q": statement.replace("FOLDER", str(folder)), **values})
        assert answer.status_code in (400, 404)
        assert SECRET not in answer.text
        assert 'role="alert"' in answer.text or address == "/sql/rows"
    assert files_of(folder) == before


def test_rows_are_a_table_and_the_same_rows_a_file(client: TestClient):
    statement = "select n, 'v' || n as name, if(n = 2, null, n / 2) as half from range(1, 4) as r(n)"
    page = client.get("/sql", params={"q": statement})
    assert page.status_code == 200
    assert all(text in page.text for text in ('<h2 id="rows-heading">3 rows</h2>', ">v3<", ">0.5<", ">null<"))
    rows = client.get("/sql/rows", params={"q": statement, "form": "csv"})
    expected = [["n", "name", "half"], ["1", "v1", "0.5"], ["2", "v2", ""], ["3", "v3", "1.5"]]
    assert list(csv.reader(io.StringIO(rows.text))) == expected
    assert rows.headers["content-disposition"] == 'attachment; filename="rows.csv"'
    stored = client.get("/sql/rows", params={"q": statement, "form": "parquet"})
    assert pq.read_table(io.BytesIO(stored.content)).to_pylist()[2] == {"n": 3, "name": "v3", "half": 1.5}


def test_a_page_has_a_thousand_rows_and_says_so_and_a_file_has_all(client: TestClient):
    page = client.get("/sql", params={"q": "from range(1234)"}).text
    assert "1,234 rows" in page
    assert "The first 1,000 are shown" in page
    assert (">999<" in page, ">1000<" in page) == (True, False)
    assert len(client.get("/sql/rows", params={"q": "from range(1234)", "form": "csv"}).text.split()) == 1235


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"q": "select no_such_column from runs"}, "no_such_column"),
        ({"q": "x" * (MOST_STATEMENT + 1)}, "a statement of 8,001 characters, expected at most 8,000"),
        ({"q": "select 1 as a", "shape": "bar"}, "No chart: found rows without a number beside another column"),
        ({"q": "select '\x00' as a from"}, "sql:"),
    ],
)
def test_a_fault_is_a_sentence_on_the_page(client: TestClient, values: dict[str, str], sentence: str):
    assert str(escape(sentence)) in client.get("/sql", params=values).text


def test_an_unknown_form_is_no_file(client: TestClient):
    assert client.get("/sql/rows", params={"q": "from runs", "form": "exe"}).status_code == 404


def test_a_statement_ends_at_its_time(folder: Path):
    runner = QueryRunner(find_lake(f"sqlite:{folder}/lake/catalog.sqlite"), timeout_s=0.2)
    with pytest.raises(QueryError, match=r"takes longer than 0\.2 s"):
        runner.run("select count(*) from range(10000000000) as a, range(1000) as b where a.range * b.range % 7 = 3")


@pytest.mark.parametrize("shape", ["bar", *nightly(["line"])])
def test_a_chart_has_a_mark_for_each_row_and_no_markup_of_its_texts(shape: str):
    texts = [*TEXTS, UNSEEN, "$y_title", "@c1"]
    rows = pa.table({texts[0]: texts, "score": [index / 10 for index in range(len(texts))]})
    svg, sentence = draw_rows(rows, shape)
    elements = list(ElementTree.fromstring(svg).iter())
    assert sum("data-tip" in element.attrib for element in elements) == len(texts) + (shape == "line")
    tags = {element.tag.rpartition("}")[2] for element in elements}
    assert tags <= {"svg", "g", "path", "line", "text", "defs", "clipPath", "rect", "tspan"}
    assert sentence.startswith("score by <script>")


def test_hostile_texts_stay_texts_on_the_page(client: TestClient):
    def tags_of(text: str) -> list[tuple[str, list[str]]]:
        quoted, named = text.replace("'", "''"), text.replace('"', '""')
        page = client.get("/sql", params={"q": f"select '{quoted}' as \"{named}\" -- {quoted}"})
        assert page.status_code == 200, page.text
        return start_tags(page.text)

    plain = tags_of("plain")
    assert [text for text in (*TEXTS, UNSEEN.replace("\x00", "")) if tags_of(text) != plain] == []


def test_every_worked_question_is_a_link_to_its_rows(client: TestClient):
    page = client.get("/sql").text
    assert all(f">{escape(question.line)}</a>" in page for question in list_questions())
    statuses = [client.get("/sql", params={"q": question.statement}).status_code for question in list_questions()[:3]]
    assert statuses == [200, 200, 200]
