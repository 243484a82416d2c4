"""The house rules that can be read off the source: who imports whom, names, sizes."""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("flows", "tasks", "rubrics")
PURE = {"pydantic", "pydantic_core", "yaml", "numpy", "pyarrow", "jsonschema", "referencing", "rubrics"}
# What checks and statistics are made with beyond that: pure too, but slow to import, so inside functions only.
CHECK_LIBRARIES = {"py3langid", "rapidfuzz", "soundfile", "sqlglot", "tokenizers"}
STATISTICS_LIBRARIES = {"scipy"}
OF_FOLDER = {"rubrics/checks/": CHECK_LIBRARIES, "rubrics/statistics/": STATISTICS_LIBRARIES}
WITH_PREFECT = ("flows/", "tasks/stages/prefect_tasks.py", "tasks/system/prefect_blocks.py")
MOST_FILE_LINES = 300
MOST_FUNCTION_LINES = 60

SOURCES = {path.relative_to(ROOT).as_posix(): path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))}


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse(SOURCES[name].read_text(encoding="utf-8"))


def files_with(found: dict[str, Iterable[object]]) -> dict[str, list[object]]:
    """What was found in each file where something was: a failure shows the files and what is wrong in them."""
    return {name: sorted(set(faults), key=str) for name, faults in found.items() if faults}


@cache
def imported_by(name: str) -> frozenset[str]:
    return frozenset(imports_in(tree_of(name)))


def imports_in(node: ast.AST) -> Iterator[str]:
    """The top-level names of the packages that the node imports; "." where the import is relative."""
    for part in ast.walk(node):
        if isinstance(part, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in part.names)
        elif isinstance(part, ast.ImportFrom):
            yield "." if part.level else str(part.module).partition(".")[0]


def imports_on_loading(node: ast.AST) -> set[str]:
    """The packages imported when the module is: those outside functions and outside `if TYPE_CHECKING`."""
    found: set[str] = set()
    for part in ast.iter_child_nodes(node):
        if isinstance(part, (ast.Import, ast.ImportFrom)):
            found.update(imports_in(part))
        elif not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and not is_for_types(part):
            found |= imports_on_loading(part)
    return found


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def names_in(room: str) -> list[str]:
    return [name for name in SOURCES if name.startswith(f"{room}/")]


def functions_of(name: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    yield from (node for node in ast.walk(tree_of(name)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def libraries_of(name: str) -> set[str]:
    return {library for folder, libraries in OF_FOLDER.items() if name.startswith(folder) for library in libraries}


def test_the_rooms_are_where_the_rules_look_for_them():
    assert all(names_in(room) for room in ROOMS)


def test_rubrics_are_pure():
    pure = PURE | sys.stdlib_module_names
    foreign = {name: imported_by(name) - pure - libraries_of(name) for name in names_in("rubrics")}
    assert files_with(foreign) == {}


def test_the_libraries_of_checks_and_statistics_are_imported_inside_functions_only():
    slow = CHECK_LIBRARIES | STATISTICS_LIBRARIES
    assert files_with({name: imports_on_loading(tree_of(name)) & slow for name in SOURCES}) == {}


def test_tasks_never_import_flows():
    assert files_with({name: imported_by(name) & {"flows"} for name in names_in("tasks")}) == {}


def test_prefect_is_imported_where_it_orchestrates_alone():
    others = [name for name in SOURCES if not name.startswith(WITH_PREFECT)]
    assert files_with({name: imported_by(name) & {"prefect"} for name in others}) == {}


def test_great_expectations_is_imported_inside_functions_only():
    loaded = {name: imports_on_loading(tree_of(name)) & {"great_expectations"} for name in SOURCES}
    assert files_with(loaded) == {}


def test_imports_are_absolute():
    assert files_with({name: imported_by(name) & {"."} for name in SOURCES}) == {}


def test_no_test_imports_conftest():
    # Python would run it a second time, and everybody wait for a Prefect server at another address.
    paths = [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    pattern = re.compile(r"^(from|import) conftest\b", re.MULTILINE)
    assert [path.name for path in paths if pattern.search(path.read_text(encoding="utf-8"))] == []


def test_no_flow_bears_the_name_of_another_module():
    # prefect puts flows/ first on the import path, so flows/statistics.py would stand in for the stdlib's
    taken = sys.stdlib_module_names | metadata.packages_distributions().keys() | {*ROOMS, "sql", "pages", "examples"}
    assert [name for name in names_in("flows") if Path(name).stem in taken - {"__init__"}] == []


def test_no_file_is_longer_than_300_lines():
    lengths = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in SOURCES.items()}
    assert {name: length for name, length in lengths.items() if length > MOST_FILE_LINES} == {}


def line_count(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Expr) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_no_function_is_longer_than_60_lines_without_its_docstring():
    lengths = {
        f"{name} {node.name}": line_count(node) - (line_count(node.body[0]) if ast.get_docstring(node) else 0)
        for name in SOURCES
        for node in functions_of(name)
    }
    assert {function: length for function, length in lengths.items() if length > MOST_FUNCTION_LINES} == {}
