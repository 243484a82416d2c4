"""DuckDB's extensions, out of their wheels: nothing is downloaded."""

import duckdb

from gradebook.rubrics.errors import LakeError


def load_extensions(connection: duckdb.DuckDBPyConnection, *names: str) -> None:
    """Load DuckDB's extensions of these names. Raises `LakeError` where one can't be."""
    for name in names:
        try:
            connection.execute(f"load {name}")
        except duckdb.Error:
            _import_extension(connection, name)


def _import_extension(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """Install the signed extension file from its wheel: the first time on a machine."""
    import duckdb_extensions

    try:
        duckdb_extensions.import_extension(name)
        connection.execute(f"load {name}")
    except ImportError as error:
        mend = "pip install 'gradebook[s3]'" if name == "httpfs" else f"duckdb-extension-{name.replace('_', '-')}"
        raise LakeError(
            f"DuckDB's extension {name} can't be loaded: found no package of it, expected it installed: {mend}"
        ) from error
    except (duckdb.Error, OSError) as error:
        raise LakeError(f"DuckDB's extension {name} can't be loaded: {error}") from error
