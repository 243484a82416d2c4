"""The selects of sql/queries: all parse, all are asked for, and none stands in a Python string instead."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

import duckdb
import pytest

from gradebook.tasks.lake.sql import query, read_sql
from tests.support.source_trees import tree_of

ROOT = Path(__file__).parents[3]
PATHS = [path for room in ("tasks", "flows") for path in (ROOT / room).rglob("*.py")]
QUERIES = sorted(
    f"{room.name}/{entry.name.removesuffix('.sql')}"
    for room in files("gradebook.sql").joinpath("queries").iterdir()
    for entry in room.iterdir()
)
OWN_TEXT = {name: read_sql(f"queries/{name}.sql") for name in QUERIES}  # without the queries that it reads
NESTED = {(nested, name) for name, text in OWN_TEXT.items() for nested in re.findall(r"\{(\w+/\w+)\}", text)}
WORD = re.compile(r"\{(\w+)\}")

MOST_LINES = 3
BEGINNING = r"\s*(select|with|from|insert|update|delete|create|copy|merge|union)\b"
STATEMENT = re.compile(BEGINNING + r".*\b(select|from|set)\b", re.DOTALL)
ALLOWED = {  # "module: begin of the first line" of a longer statement, and why it stands in Python
    "tasks/methods/preference.py: select outputs.output, scores.output_id,": "a view, which takes no parameter",
    "tasks/judging/session/lease.py: select wanted.request_key, owners.journal": "SQLite's dialect",
    "tasks/lake/schema.py: update criteria": "an update",
    "tasks/ratings/rating_store.py: insert into tasks (output_id, selection,": "SQLite's dialect",
    "tasks/ratings/rating_store.py: select tasks.position": "SQLite's dialect",
    "tasks/ratings/tables.py: insert into quarantine by name": "an insert",
    "tasks/stages/publish.py: insert into stage_costs by name select ?": "an insert",
}


@cache
def facts() -> dict[str, tuple[set[str], list[tuple[str, int]]]]:
    """`names_in` and `strings_in` of each module."""
    trees = {str(path.relative_to(ROOT)): tree_of(path) for path in PATHS}
    return {path: (names_in(tree), [*strings_in(tree)]) for path, tree in trees.items()}


def names_in(module: ast.Module) -> set[str]:
    """The queries that a module asks for: the strings that `query` and `make_table` are called with."""
    calls = [node for node in ast.walk(module) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    given = [part for call in calls if call.func.id in ("query", "make_table") for part in call.args]
    return {part.value for part in given if isinstance(part, ast.Constant)}


def strings_in(module: ast.Module) -> Iterator[tuple[str, int]]:
    """Each string of a module that is no docstring, and its count of lines: of the text, or else of its pieces."""
    skipped = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    for node in ast.walk(module):  # a formatted string comes before its parts
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in ast.walk(node)}
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "?" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        pieces = (node.end_lineno or node.lineno) - node.lineno + 1
        yield text, len(text.strip().splitlines()) if "\n" in text else pieces


def test_no_longer_statement_stands_in_a_python_string():
    found = {
        f"{path}: {text.strip().splitlines()[0][:41].rstrip()}"
        for path, (_, strings) in facts().items()
        for text, line_count in strings
        if line_count > MOST_LINES and STATEMENT.match(text)
    }
    assert found == {*ALLOWED}


def test_every_query_is_asked_for_by_name_and_every_name_is_a_query():
    named = {name for names, _ in facts().values() for name in names}
    assert named | {nested for nested, _ in NESTED} == {*QUERIES}


def test_a_query_is_in_the_folder_of_a_room_that_asks_for_it():
    asking = {(name, path.split("/")[1]) for path, (names, _) in facts().items() for name in names}
    asking |= {(nested, name.partition("/")[0]) for nested, name in NESTED}
    assert [name for name in QUERIES if (name, name.partition("/")[0]) not in asking] == []


def test_every_query_parses_as_one_select():
    with duckdb.connect() as connection:
        for name in QUERIES:
            text = WORD.sub(r"\1", query(name))
            serialized = connection.execute("select json_serialize_sql($text)", {"text": text}).fetchall()[0][0]
            assert '"error":false' in serialized, (name, serialized)


def test_the_first_comment_of_a_query_names_its_parameters_and_words():
    for name in QUERIES:
        comment, _, code = OWN_TEXT[name].partition("\nwith ")
        assert [each for each in re.findall(r"\$\w+", code) if each not in comment] == [], name
        assert [each for each in WORD.findall(code) if not re.search(rf"\b{each}\b", comment)] == [], name


def test_a_word_that_the_file_lacks_is_refused():
    name = next(name for name in QUERIES if not WORD.search(query(name)))
    with pytest.raises(KeyError):
        query(name, relation="runs")
