"""Formats of ratings by name, and the detection of a format from its first row."""

from collections.abc import Callable, Mapping, Sequence

from gradebook.rubrics.importers.ratings.annotation_tools import (
    has_schemes,
    is_task,
    read_potato_row,
    read_scale_task,
    read_task,
)
from gradebook.rubrics.importers.ratings.sheets import LeftOut, Naming, Sheet
from gradebook.rubrics.importers.ratings.tables import (
    has_claims,
    is_long,
    is_rated_trace,
    read_json_row,
    read_table_row,
)
from gradebook.rubrics.importers.ratings.trajectory import is_trajectory
from gradebook.rubrics.model.json_values import Row

# (row, names in the file, ignored content) -> sheets; raises `Misfit`
ReadRow = Callable[[Row, Naming, LeftOut], Sequence[Sheet]]
READERS: Mapping[str, ReadRow] = {
    "potato": read_potato_row,
    "scale": read_scale_task,
    "csv": read_table_row,
    "label-studio": read_task,
    "jsonl": read_json_row,
}
FORMAT_NAMES = tuple(READERS)


def guess_format(row: Row, naming: Naming) -> str:
    """Most likely format of a JSON row; one of `FORMAT_NAMES` without csv."""
    if isinstance(row.get("threads"), list):
        return "scale"
    if is_task(row):
        return "label-studio"
    if is_rated_trace(row) or is_trajectory(row) or has_claims(row) or is_long(row, naming):
        return "jsonl"
    is_flat = any(naming.is_criterion(name) for name in row)
    return "potato" if has_schemes(row) and not is_flat else "jsonl"
