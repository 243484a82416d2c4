"""PostgreSQL that is not there when it is asked: no mistake of the command, and waited for where it restarts."""

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import LakeError, LakeUnavailable
from gradebook.tasks.lake import attaching as lake_attaching
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit, connect, prepare_lake
from gradebook.tasks.lake.user_queries import run_query
from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
COMMANDS = (
    ("sql", "from runs"),
    ("runs",),
    (
        "lake",
        "versions",
    ),
    ("status",),
    (
        "lake",
        "compact",
    ),
    ("evaluate", "outputs.jsonl", "--rubric", "json_record"),
)


@pytest.fixture
def place(server: PostgresServer, tmp_path: Path) -> tuple[str, str, str, str]:
    """The options that name a new lake."""
    return ("--lake", f"postgres:{server.create_database()}", "--data", str(tmp_path / "lake"))


@pytest.fixture
def lake(place: tuple[str, str, str, str]) -> Lake:
    found = find_lake(place[1], place[3])
    prepare_lake(found)
    return found


@pytest.fixture
def stopped(server: PostgresServer, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The server of the lake is not there."""
    monkeypatch.setattr(lake_attaching, "BACK_SOON_S", 0.0)  # nobody brings it back meanwhile
    server.stop()
    yield
    server.start()


def test_a_command_of_a_lake_whose_server_is_gone_ends_with_3(gradebook, place, stopped, tmp_path):
    (tmp_path / "outputs.jsonl").write_text('{"case_id": "a", "model": "m", "output": "{}"}\n')
    ends = [gradebook(*words, *place) for words in COMMANDS]
    assert {ended.code for ended in ends} == {3}
    assert all("its server does not answer" in ended.err for ended in ends)


def test_the_doctor_names_a_server_that_is_gone(gradebook, place, stopped):
    ended = gradebook("doctor", *place)
    assert (ended.code, "its server does not answer" in ended.out) == (1, True), ended.out + ended.err


def test_a_reader_waits_for_a_server_that_restarts(server, lake):
    server.stop()
    back = threading.Timer(1.0, server.start)
    back.start()
    assert run_query(lake, "from runs").num_rows == 0
    back.join()


def read_over_a_restart(server: PostgresServer, lake: Lake) -> None:
    with connect(lake, read_only=True) as connection:
        connection.execute("begin")
        connection.execute("from runs").fetchall()
        server.restart()
        connection.execute("from outputs").fetchall()


@pytest.mark.nightly
def test_a_server_that_goes_away_while_a_question_is_answered_is_told(server, lake):
    with pytest.raises(LakeUnavailable, match="its server does not answer"):
        read_over_a_restart(server, lake)
    assert run_query(lake, "from runs").num_rows == 0


@pytest.mark.nightly
def test_a_server_without_room_for_one_more_is_waited_for(server, lake):
    command = [server.programs / "psql", "-qAtX", server.connection("postgres"), "-c", "select pg_sleep(2)"]
    others = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(60)]
    add = "insert into runs (run_id) values ('a')"
    assert commit(lake, "add", lambda connection, _version: connection.execute(add)) > 0
    for other in others:
        other.wait()


@pytest.mark.nightly
def test_rows_that_are_still_read_when_the_server_goes_away_end_no_process(server, lake):
    commit(
        lake, "add", lambda connection, _: connection.execute("insert into runs (run_id) select * from range(10000)")
    )
    with connect(lake, read_only=True) as connection:
        reader = connection.execute("from runs").to_arrow_reader(10)
        reader.read_next_batch()
        server.restart()


def test_a_wrong_name_of_a_database_is_still_a_mistake_of_the_command(server, tmp_path):
    with pytest.raises(LakeError, match='database "none" does not exist'):
        prepare_lake(find_lake(f"postgres:{server.connection('none')}", str(tmp_path)))
