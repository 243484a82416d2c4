"""A lake whose catalog is a real PostgreSQL server: shared writers, what a run leaves, what reading can't reach."""

import itertools
import json
import multiprocessing
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import LakeError, QueryError
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit, connect, lake_exists, prepare_lake
from gradebook.tasks.lake.user_queries import run_query
from gradebook.tasks.lake.versions import find_version, list_versions
from tests.support.forked import Forked
from tests.support.loopback_judge import LoopbackJudge
from tests.support.nightly import nightly
from tests.support.postgres import PostgresServer
from tests.support.samples import write_outputs, write_rubric

pytestmark = pytest.mark.postgres
WRITERS, COMMITS = 4, 5
CANARY = "pass-canary-0123456789"
METADATA = "__ducklake_metadata_lake"  # DuckLake's name for the database of the catalog
names = (f"lake_{number}" for number in itertools.count())


@pytest.fixture
def database(server: PostgresServer) -> str:
    return next(names)


@pytest.fixture
def place(server: PostgresServer, database: str, tmp_path: Path) -> tuple[str, str, str, str]:
    """The options that name a new lake."""
    return ("--lake", f"postgres:{server.create_database(database)}", "--data", str(tmp_path / "lake"))


@pytest.fixture
def lake(place: tuple[str, str, str, str]) -> Lake:
    found = find_lake(place[1], place[3])
    prepare_lake(found)
    return found


@pytest.fixture(scope="module")
def read_lake(server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake in the database `read`, and beside it a table of somebody else, for tests that write nothing."""
    found = find_lake(f"postgres:{server.create_database('read')}", str(tmp_path_factory.mktemp("read")))
    prepare_lake(found)
    server.ask("read", "create table other as select 42 as a")
    return found


@pytest.fixture
def request_words(
    place: tuple[str, str, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[str]]:
    """The words after `gradebook evaluate`: 12 outputs, a judged and a checked criterion, a judge on loopback."""
    outputs, rubric = write_outputs(tmp_path / "outputs.jsonl"), write_rubric(tmp_path / "rubric.yaml")
    with LoopbackJudge() as judge:
        monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        yield [str(outputs), "--rubric", str(rubric), "--judge", "gpt-4o-mini", *place]


def add_run(lake: Lake, run_id: str) -> int:
    def body(connection, version):
        connection.execute("insert into runs (run_id, version) values (?, ?)", [run_id, version])

    return commit(lake, run_id, body)


def add_runs(lake: Lake, writer: int) -> None:
    for number in range(COMMITS):
        add_run(lake, f"{writer}-{number}")


def query(gradebook, sql, place, *options):
    finished = gradebook("sql", sql, "--format", "json", *place, *options)
    assert finished.code == 0, finished.err
    return json.loads(finished.out)


def test_an_evaluation_is_published_and_read_back(evaluate, gradebook, place, request_words):
    finished = evaluate(*request_words)
    assert finished.code == 0, finished.err
    # 6 cases, each answered by both models
    assert query(gradebook, "select model, output_count from run_scores order by model", place) == [
        {"model": "large", "output_count": 6},
        {"model": "small", "output_count": 6},
    ]


@pytest.mark.nightly
def test_an_old_version_reads_as_it_was(evaluate, gradebook, place, request_words):
    first = evaluate(*request_words).json["version"]
    evaluate(*request_words)
    count = "select count(distinct run_id) n from output_scores"
    assert query(gradebook, count, place) == [{"n": 2}]
    assert query(gradebook, count, place, "--at", str(first)) == [{"n": 1}]


@pytest.mark.nightly
@pytest.mark.slow
def test_writers_at_once_lose_nothing_and_each_version_is_its_own(lake):
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=add_runs, args=(lake, number)) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    with connect(lake, read_only=True) as connection:
        found = connection.execute("select run_id, version from runs").fetchall()
        # the commit's own message names the run that its version brought
        told = connection.execute("select commit_message, snapshot_id from ducklake_snapshots('lake')").fetchall()
    assert len(found) == WRITERS * COMMITS
    assert sorted(found) == sorted(row for row in told if "-" in str(row[0]))


@pytest.mark.slow
def test_two_evaluations_at_once_of_the_same_are_both_published_and_share_their_outputs(
    gradebook, place, request_words, tmp_path
):
    both = [Forked(["evaluate", *request_words, "--run-id", run_id], tmp_path) for run_id in ("one", "two")]
    ends = [process.wait() for process in both]
    assert [code for code, _, _ in ends] == [0, 0], [err for _, _, err in ends]
    runs = query(gradebook, "select run_id, status, version from runs order by run_id", place)
    assert [(row["run_id"], row["status"]) for row in runs] == [("one", "published"), ("two", "published")]
    assert runs[0]["version"] != runs[1]["version"]
    counts = (
        "select (select count(*) from outputs) o, (select count(*) from verdicts) v, (select count(*) from rubrics) r"
    )
    # 12 outputs and one rubric for both runs; 12 outputs x 2 criteria x 2 runs = 48 verdicts
    assert query(gradebook, counts, place) == [{"o": 12, "v": 48, "r": 1}]


@pytest.mark.parametrize(
    "connection",
    [
        f"dbname=none host=/tmp/nowhere password={CANARY}",
        f"dbname=none host=127.0.0.1 port=1 password='{CANARY} x'",
        f"//user:{CANARY}@127.0.0.1:1/none",
        f"//user:a@{CANARY}@127.0.0.1:1/none",
        f"//user:%zz{CANARY}@127.0.0.1:1/none",
        f"dbname=none password=x {CANARY}",
    ],
)
def test_an_address_with_a_password_is_refused_in_one_sentence_without_it(gradebook, tmp_path, connection):
    finished = gradebook("runs", "--lake", f"postgres:{connection}", "--data", tmp_path / "lake")
    assert finished.code == 2
    assert finished.err.startswith("gradebook: --lake: found a password in the connection string, expected none")
    assert len(finished.err.splitlines()) == 1
    assert CANARY not in finished.out + finished.err


def test_a_database_that_is_not_there_is_named(server, tmp_path, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", CANARY)
    with pytest.raises(LakeError, match='database "none" does not exist') as caught:
        prepare_lake(find_lake(f"postgres:{server.connection('none')}", str(tmp_path)))
    # a log would show the cause as well
    assert CANARY not in str(caught.value)
    assert caught.value.__suppress_context__


def test_an_address_with_the_wrong_first_word_keeps_its_password(tmp_path):
    with pytest.raises(LakeError, match="expected sqlite:FILE or postgres:CONNECTION") as caught:
        find_lake(f"postgresql://user:{CANARY}@localhost/lake", str(tmp_path))
    assert CANARY not in str(caught.value)


def test_a_url_names_a_lake_too(server, database, tmp_path):
    server.create_database(database)
    url = f"postgres://postgres@/{database}?host={server.folder}"
    prepare_lake(find_lake(url, str(tmp_path)))
    assert run_query(find_lake(url, str(tmp_path)), "from runs").num_rows == 0


def test_an_empty_database_holds_no_lake_yet(server, database, tmp_path):
    empty = find_lake(f"postgres:{server.create_database(database)}", str(tmp_path))
    assert not lake_exists(empty)
    with pytest.raises(LakeError, match="the PostgreSQL catalog: found no lake there"):
        run_query(empty, "from runs")


def test_a_lake_needs_its_folder_of_files():
    with pytest.raises(LakeError, match="--data: found none"):
        find_lake("postgres:dbname=x")


@pytest.mark.parametrize(
    "sql",
    [
        "insert into runs (run_id) values ('x')",
        "explain analyze insert into runs (run_id) values ('x')",
        f"from postgres_execute('{METADATA}', 'create table hack (a int)')",
        f"from postgres_query('{METADATA}', 'select lo_create(4711)')",
        f"from postgres_query('{METADATA}', 'select pg_read_file(''/etc/hostname'')')",
        f'select (select a from "{METADATA.upper()}".other)',
        "from POSTGRES_SCAN_pushdown('{connection}', 'public', 'other')",
        "from postgres_attach('{connection}')",
        "from duckdb_databases()",
        "attach '{connection}' as other (type postgres)",
        *nightly(
            [
                f"explain analyze call postgres_execute('{METADATA}', 'create table hack (a int)')",
                f"describe from postgres_query('{METADATA}', 'select lo_create(4711)')",
                f"from query('from postgres_query(''{METADATA}'', ''select lo_create(4711)'')')",
                f"from {METADATA}.public.other",
                f"from query_table('{METADATA}.public.other')",
                "from postgres_scan('{connection}', 'public', 'other')",
                "from duckdb_databases",
                f"call postgres_execute('{METADATA}', 'create table hack (a int)')",
            ]
        ),
    ],
)
def test_reading_neither_writes_nor_reaches_the_server_otherwise(server, read_lake, sql):
    with pytest.raises(QueryError, match="sql: "):
        run_query(read_lake, sql.replace("{connection}", read_lake.address))
    left = "select count(*) from pg_class where relname = 'hack' union all select count(*) from pg_largeobject_metadata"
    assert server.ask("read", left).split() == ["0", "0"]


def test_the_refusals_are_ours_and_not_a_mistyped_query(read_lake):
    with pytest.raises(QueryError, match="sql: found the table function postgres_query, expected the lake's tables"):
        run_query(read_lake, f"from postgres_query('{METADATA}', 'select 1')")


@pytest.mark.nightly
def test_reading_shows_no_connection_string(read_lake):
    queries = ("show databases", "show all tables", "from duckdb_tables()")
    shown = [run_query(read_lake, query).to_pylist() for query in queries]
    assert read_lake.address not in str(shown)


# -------- earlier versions
@pytest.mark.nightly
def test_versions_are_listed_and_found_by_their_time(lake: Lake):
    made = [add_run(lake, run_id) for run_id in ("a", "b")]
    listed = list_versions(lake, 2).versions
    assert [each.version for each in listed] == made[::-1]
    assert [each.row_counts for each in listed] == [{"runs": 1}] * 2
    assert [find_version(lake, each.made_at.isoformat()) for each in listed] == made[::-1]


@pytest.mark.nightly
def test_a_version_that_is_not_there_is_named_without_the_connection(lake: Lake):
    with (
        pytest.raises(LakeError, match="--at: found 999, expected a version of the lake"),
        connect(replace(lake, at=999), read_only=True),
    ):
        pass
