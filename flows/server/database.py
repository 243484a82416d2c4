"""A new SQLite database of Prefect, made from the schema that Prefect's migrations lead to.

The migrations of a new database take three CPU seconds, more than the rest of the server's start. Prefect applies later
ones as usual.
"""

import os
import re
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

SCHEMA = Path(__file__).with_name("prefect_schema.sql")  # written by bench/prefect_schema.py
REVISION = re.compile(r'INSERT INTO "alembic_version" VALUES\(\'(\w+)\'\);')


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
