"""Tables, marts and views of a lake, with the descriptions and types of their columns."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.schema import column_types
from gradebook.tasks.lake.sql import described_tables
from gradebook.tasks.lake.views import KNOWN_VIEWS

KINDS = ("table", "mart", "view")


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """A column: its type in SQL, its meaning and unit."""

    name: str
    type: str
    meaning: str


@dataclass(frozen=True, slots=True)
class TableDescription:
    """A table, mart or view. description: its grain and content."""

    name: str
    kind: str
    description: str
    columns: tuple[ColumnDescription, ...]

    @property
    def line(self) -> str:
        """First sentence of the description, without the word for the kind."""
        words = self.description.removeprefix("A view, ").partition(". ")[0].rstrip(".")
        return words[0].upper() + words[1:]


@cache
def list_tables() -> tuple[TableDescription, ...]:
    """All of them, as sql/columns.yml describes them: tables, then marts, then views."""
    types = column_types()
    described = []
    for name, words in described_tables().items():
        columns = (ColumnDescription(each, types[name, each], meaning) for each, meaning in words["columns"].items())
        described.append(TableDescription(name, _kind(name), words["description"], tuple(columns)))
    return tuple(sorted(described, key=lambda table: KINDS.index(table.kind)))


def find_table(name: str) -> TableDescription:
    """Description of one of them. Raises `InputError` for another name."""
    found = next((table for table in list_tables() if table.name == name.lower()), None)
    if found is None:
        raise InputError("tables", repr(name), "a name that `gradebook tables` lists")
    return found


def _kind(name: str) -> str:
    if name in KNOWN_VIEWS:
        return "view"
    return "mart" if files("gradebook.sql").joinpath("marts").joinpath(f"{name}.sql").is_file() else "table"
