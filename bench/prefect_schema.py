"""Schema of a new Prefect database, as the installed Prefect's migrations make it.

    python bench/prefect_schema.py > flows/server/prefect_schema.sql

Run it with the oldest Prefect that pyproject.toml allows: newer ones apply their own migrations on top.
"""

import asyncio
import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path


def main() -> None:
    """Migrate a new database and print its schema."""
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"PREFECT_HOME": home, "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
        from prefect.server.database import provide_database_interface

        asyncio.run(provide_database_interface().create_db())
        with closing(sqlite3.connect(Path(home) / "prefect.db")) as connection:
            print(*connection.iterdump(), sep="\n")


if __name__ == "__main__":
    main()
