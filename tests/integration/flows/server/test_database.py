"""The schema of a new Prefect database: the one that Prefect's own migrations make."""

import shutil
import sqlite3
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from gradebook.flows.server.database import REVISION, SCHEMA, create_database, has_all_migrations

ROOT = Path(__file__).parents[4]
PREFECT = Path(str(find_spec("prefect").origin)).parent  # without the imports of its server
MIGRATIONS = PREFECT / "server" / "database" / "_migrations" / "versions" / "sqlite"


def lines_of(schema: str) -> list[str]:
    """Lines in an order of their own: that of a table's constraints differs from one migration to the next."""
    return sorted(line.strip().rstrip(",") for line in schema.splitlines())


@pytest.mark.nightly
@pytest.mark.slow
def test_the_schema_is_the_one_of_prefects_migrations():
    made = subprocess.run(
        [sys.executable, "bench/prefect_schema.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    assert lines_of(made.stdout) == lines_of(SCHEMA.read_text(encoding="utf-8"))


def test_a_new_database_has_the_revision_of_its_schema_and_no_other_row(tmp_path):
    assert create_database(tmp_path / "prefect.db", MIGRATIONS)
    assert [file.name for file in tmp_path.iterdir()] == ["prefect.db"]
    assert (tmp_path / "prefect.db").stat().st_mode & 0o777 == 0o600
    with sqlite3.connect(tmp_path / "prefect.db") as connection:
        tables = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
        counts = {name: connection.execute(f"select count(*) from {name}").fetchone()[0] for name in tables}
        revision = connection.execute("select * from alembic_version").fetchone()
    assert {name for name, count in counts.items() if count} == {"alembic_version"}
    assert list(revision) == REVISION.findall(SCHEMA.read_text(encoding="utf-8"))


def test_a_database_that_exists_is_left_alone(tmp_path):
    (tmp_path / "prefect.db").write_bytes(b"mine")
    assert not create_database(tmp_path / "prefect.db", MIGRATIONS)
    assert (tmp_path / "prefect.db").read_bytes() == b"mine"


def test_a_prefect_without_the_schemas_revision_makes_its_own_database(tmp_path):
    assert not create_database(tmp_path / "prefect.db", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_migrations_are_looked_for_only_if_one_is_left(tmp_path):
    database, later = tmp_path / "prefect.db", tmp_path / "later"
    assert not has_all_migrations(database, MIGRATIONS)
    assert not database.exists()
    create_database(database, MIGRATIONS)
    assert has_all_migrations(database, MIGRATIONS)
    assert not has_all_migrations(database, tmp_path)  # of a Prefect that does not know the revision
    shutil.copytree(MIGRATIONS, later)
    (revision,) = REVISION.findall(SCHEMA.read_text(encoding="utf-8"))
    (later / "2099_next.py").write_text(f"revision = 'next'\ndown_revision = '{revision}'\n", encoding="utf-8")
    assert not has_all_migrations(database, later)
    (tmp_path / "mine.db").write_bytes(b"mine")
    assert not has_all_migrations(tmp_path / "mine.db", MIGRATIONS)
