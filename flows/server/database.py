"""A new SQLite database of Prefect, made from the schema that Prefect's migrations lead to.

The migrations of a new database take three CPU seconds, more than the rest of the server's start. Prefect applies later
ones as usual, and looks for them only if there are any: the look takes 0.16 CPU seconds.
"""

import os
import re
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

SCHEMA = Path(__file__).with_name("prefect_schema.sql")  # written by bench/prefect_schema.py
REVISION = re.compile(r'INSERT INTO "alembic_version" VALUES\(\'(\w+)\'\);')


def has_all_migrations(database: Path, migrations: Path) -> bool:
    """Whether the last one of these migrations has been applied to a database. migrations: as for `create_database`."""
    if not database.exists():
        return False
    try:
        with closing(sqlite3.connect(database)) as connection:
            ((revision,),) = connection.execute("select version_num from alembic_version")
    except (sqlite3.Error, ValueError):
        return False
    texts = [path.read_text(encoding="utf-8") for path in migrations.glob("*.py")]
    later = re.compile(rf"^down_revision\b.*{re.escape(revision)}", re.MULTILINE)
    return any(f'revision = "{revision}"' in text for text in texts) and not any(map(later.search, texts))


def create_database(database: Path, migrations: Path) -> bool:
    """Create a database where there is none; returns whether it did.

    migrations: folder of the installed Prefect's migrations. If none of them leads to the schema, or the file system
    has no links, the database is left to Prefect.
    """
    schema = SCHEMA.read_text(encoding="utf-8")
    (revision,) = REVISION.findall(schema)
    if database.exists() or not any(migrations.glob(f"*_{revision}_*.py")):
        return False
    descriptor, name = tempfile.mkstemp(dir=database.parent, prefix="gradebook-", suffix=".db")
    os.close(descriptor)
    try:
        with closing(sqlite3.connect(name)) as connection:
            connection.executescript(schema)
        with suppress(OSError):  # also where Prefect's own server was faster
            os.link(name, database)
            return True
        return False
    finally:
        Path(name).unlink()
