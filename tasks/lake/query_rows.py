"""Writers of a user's query rows, one for each file format."""

import csv
from typing import Protocol

import pyarrow as pa

from gradebook.rubrics.model.errors import QueryError


class Writable(Protocol):
    """File that is open for writing text."""

    def write(self, text: str, /) -> int: ...


def refuse_repeated_names(rows: pa.Table) -> None:
    """Raise `QueryError` for repeated columns: JSON keeps only the last one, and few readers accept such Parquet."""
    twice = sorted({name for name in rows.column_names if rows.column_names.count(name) > 1})
    if twice:
        raise QueryError("sql", f"{', '.join(twice)} more than once", "each column once", "rename it with `as`")


def write_csv(rows: pa.Table, file: Writable) -> None:
    """Write rows as CSV, with a line of column names."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(rows.column_names)
    for batch in rows.to_batches():
        writer.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))
