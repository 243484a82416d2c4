"""The house rules that can be read off the source: which module imports which, names, sizes."""

import ast
import importlib.util
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

from tests.support.source_trees import tree_of

ROOT = Path(__file__).parents[2]
ROOMS = ("flows", "tasks", "rubrics")  # from the top down: a room imports those after it, and none before it
# The packages of each room, from the top down in the same way. FLOW_FILES: the modules that stand in flows/ itself.
FLOW_FILES = "(flow files)"
PACKAGES = {
    "flows": ("entry", "cli", "commands", "api", FLOW_FILES, "deployment", "display"),
    "tasks": (
        *("operations", "viewing", "learning", "stages", "serving", "reporting", "published", "rewards", "scoring"),
        *("methods", "comparing", "planning", "marts", "runs", "ledger", "agreement", "collecting", "judging"),
        *("ratings", "rubric_store", "datasets", "lake", "workspace", "system"),
    ),
    "rubrics": (
        *(
            "learning",
            "lint",
            "importers",
            "files",
            "checks",
            "schemas",
            "prompts",
            "text",
            "statistics",
            "check_kit",
            "model",
        ),
    ),
}
FLOORS = [f"{room}/{package}" for room in ROOMS for package in PACKAGES[room]]
# Below flows/, where every command imports what it alone needs, these modules of ours are imported inside functions,
# for a library that takes long to import and is needed by few who import the module.
IMPORTED_LATE = {
    ("tasks/lake/schema.py", "gradebook.rubrics.files.tables"): "pyarrow; for old lakes alone",
    ("rubrics/checks/json_outputs.py", "gradebook.rubrics.schemas.validating"): "jsonschema; for two checks",
    ("rubrics/checks/steps.py", "gradebook.rubrics.schemas.validating"): "jsonschema; for one check",
    ("rubrics/files/editor_schema.py", "gradebook.rubrics.checks.registry"): "pyarrow, by the checks",
    ("rubrics/files/validate.py", "gradebook.rubrics.check_kit.check"): "pyarrow; for rubrics with checks",
    ("rubrics/files/validate.py", "gradebook.rubrics.checks.registry"): "pyarrow; for rubrics with checks",
    ("rubrics/files/validate.py", "gradebook.rubrics.schemas.validating"): "jsonschema; for rubrics with schemas",
    ("rubrics/prompts/media_kinds.py", "gradebook.rubrics.check_kit.audio_reading"): "numpy; for cases with sounds",
    ("tasks/judging/batches/endpoint.py", "gradebook.tasks.judging.transport.http_client"): "httpx2; for batches",
    ("tasks/judging/transport/connection.py", "gradebook.tasks.judging.transport.http_client"): "aiohttp; for judges",
    ("tasks/judging/transport/probe.py", "gradebook.tasks.judging.transport.http_client"): "aiohttp; for judges",
    ("tasks/methods/check.py", "gradebook.rubrics.schemas.validating"): "jsonschema; for criteria with a schema",
    ("tasks/stages/publish.py", "gradebook.tasks.reporting.page"): "jinja2 and charts; for runs with a page",
    ("tasks/system/prefect_settings.py", "gradebook.rubrics.text.named_files"): "pydantic; where there are such files",
    ("tasks/system/prefect_settings.py", "gradebook.tasks.system.operator_settings"): "pydantic; where there are some",
    ("tasks/system/events.py", "gradebook.tasks.system.exporters"): "opentelemetry; where an exporter is configured",
}
WITH_AN_EXTRA = {"tasks/system/exporters.py"}  # modules of an extra of pyproject.toml, imported late
PURE = {
    "pydantic",
    "pydantic_core",
    "yaml",
    "jinja2",
    "orjson",
    "numpy",
    "pyarrow",
    "jsonschema",
    "referencing",
    "gradebook",
}
# Libraries of checks and statistics beyond that: pure too, but slow to import, so inside functions only.
CHECK_LIBRARIES = {"py3langid", "rapidfuzz", "soundfile", "sqlglot", "tokenizers"}
STATISTICS_LIBRARIES = {"scipy"}
OF_FOLDER = {
    "rubrics/checks/": CHECK_LIBRARIES,
    "rubrics/check_kit/": CHECK_LIBRARIES,
    "rubrics/statistics/": STATISTICS_LIBRARIES,
}
WITH_PREFECT = ("flows/", "tasks/stages/prefect_tasks.py", "tasks/system/prefect_settings.py")
MOST_FUNCTION_LINES = 60

SOURCES = {path.relative_to(ROOT).as_posix(): path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))}
OTHERS = {
    path.relative_to(ROOT).as_posix(): path
    for folder in ("tests", "bench", "examples")
    for path in sorted((ROOT / folder).rglob("*.py"))
}
FILES = SOURCES | OTHERS
MODULES = {
    ".".join(["gradebook", *Path(name.removesuffix("/__init__.py")).with_suffix("").parts]): name for name in SOURCES
}


@dataclass(frozen=True)
class Import:
    """One name that a file imports, and where."""

    file: str
    line: int
    module: str  # "" where the import is relative; of ours a module, of a library whatever the file names
    is_late: bool = False  # inside a function
    is_for_types: bool = False  # below `if TYPE_CHECKING`

    @property
    def package(self) -> str:
        """The top-level name."""
        return self.module.partition(".")[0]

    @property
    def target(self) -> str | None:
        """The file of the rooms that is imported, None for a library."""
        return MODULES.get(self.module)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.module or 'a relative import'}"


@cache
def imports_of(name: str) -> tuple[Import, ...]:
    return tuple(imports_below(name, tree_of(FILES[name])))


def imports_below(name: str, node: ast.AST, *, is_late: bool = False, is_for_types: bool = False) -> Iterator[Import]:
    for part in ast.iter_child_nodes(node):
        if isinstance(part, (ast.Import, ast.ImportFrom)):
            for module in modules_named(part):
                yield Import(name, part.lineno, module, is_late, is_for_types)
        elif not isinstance(part, (ast.expr, ast.expr_context)):  # in them no import can be: most nodes are such
            is_function = isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))
            types = is_for_types or (isinstance(part, ast.If) and "TYPE_CHECKING" in ast.unparse(part.test))
            yield from imports_below(name, part, is_late=is_late or is_function, is_for_types=types)


def modules_named(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The modules that a statement imports: `from gradebook.tasks import lake` names gradebook.tasks.lake."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if node.level:
        return [""]
    inner = [f"{node.module}.{alias.name}" for alias in node.names]
    return list(dict.fromkeys(name if name in MODULES else str(node.module) for name in inner))


def imports_in(room: str = "") -> list[Import]:
    """All imports of the files of a room, or of all rooms."""
    return [each for name in SOURCES if name.startswith(room) for each in imports_of(name)]


@cache
def own_imports() -> tuple[tuple[Import, str], ...]:
    """The imports of one file of the rooms by another, each with the file imported."""
    return tuple((each, each.target) for each in imports_in() if each.target and each.target != each.file)


def floor_of(name: str) -> str:
    """The room and package of a file, as FLOORS lists them; what stands in no package counts as its room's top."""
    room, *inner = Path(name).with_suffix("").parts
    if inner[0] in PACKAGES[room]:
        return f"{room}/{inner[0]}"
    return f"{room}/{FLOW_FILES if room == 'flows' else PACKAGES[room][0]}"


def step_of(file: str, target: str) -> tuple[str, str, str]:
    """The innermost folder that holds both files, and which child of it each is or stands in."""
    a, b = Path(file).with_suffix("").parts, Path(target).with_suffix("").parts
    shared = next(i for i in range(len(a)) if a[: i + 1] != b[: i + 1])
    return "/".join(a[:shared]), a[shared], b[shared]


def circles(graph: Mapping[str, Iterable[str]]) -> list[set[str]]:
    """The groups of nodes that reach each other (Tarjan's strongly connected components, those of two and more)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_nodes: list[str] = []
    found: list[set[str]] = []

    def visit(node: str) -> None:
        numbers[node] = lowest[node] = len(numbers)
        open_nodes.append(node)
        for other in graph.get(node, ()):
            if other not in numbers:
                visit(other)
            if other in open_nodes:
                lowest[node] = min(lowest[node], lowest[other])
        if lowest[node] == numbers[node]:
            at = open_nodes.index(node)
            found.append(set(open_nodes[at:]))
            del open_nodes[at:]

    for node in graph:
        if node not in numbers:
            visit(node)
    return [group for group in found if len(group) > 1]


def functions_of(name: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    nodes = ast.walk(tree_of(FILES[name]))
    yield from (node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def libraries_of(name: str) -> set[str]:
    return {library for folder, libraries in OF_FOLDER.items() if name.startswith(folder) for library in libraries}


def refuse(offenders: Iterable[object]) -> None:
    """Fail with all that a law forbids, a line each."""
    lines = sorted(set(map(str, offenders)))
    if lines:
        pytest.fail("\n".join([f"{len(lines)} found, expected none", *lines]), pytrace=False)


# -------- directions
def test_every_package_has_a_floor():
    packages = {tuple(name.split("/")[:2]) for name in SOURCES if name.count("/") > 1}
    assert {room for room, _ in packages} == set(ROOMS)
    refuse(
        f"{room}/{name}/: found no floor, expected it in PACKAGES"
        for room, name in packages
        if name not in PACKAGES[room]
    )


def test_tasks_and_rubrics_hold_no_module_beside_their_packages():
    refuse(name for name in SOURCES if re.fullmatch(r"(tasks|rubrics)/(?!__init__)\w+\.py", name))


def test_imports_go_down():
    numbers = {floor: number for number, floor in enumerate(FLOORS)}
    placed = [(each, floor_of(each.file), floor_of(target)) for each, target in own_imports()]
    refuse(f"{each}, from {above} up to {below}" for each, above, below in placed if numbers[above] > numbers[below])


def test_no_modules_import_each_other_in_a_circle():
    graph = defaultdict(set)
    for each, target in own_imports():
        graph[each.file].add(target)
    grouped = [(group, each, target) for group in circles(graph) for each, target in own_imports()]
    refuse(str(each) for group, each, target in grouped if {each.file, target} <= group)


def test_no_folders_import_each_other_in_a_circle():
    # A folder's own parts, modules and folders, have one direction too: settings below transport below session.
    graphs: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    steps = [(each, *step_of(each.file, target)) for each, target in own_imports() if "__init__.py" not in target]
    for each, folder, above, below in steps:
        if not each.file.endswith("__init__.py"):
            graphs[folder][above].add(below)
    refuse(
        f"{each}, within {folder}/: {above} and {below} import each other"
        for within, graph in graphs.items()
        for group in circles(graph)
        for each, folder, above, below in steps
        if folder == within and {above, below} <= group
    )


def test_no_module_of_ours_is_imported_for_types_alone():
    refuse(each for each, _ in own_imports() if each.is_for_types)


def test_below_flows_our_modules_are_imported_inside_functions_for_a_slow_library_alone():
    late = [each for each, _ in own_imports() if each.is_late and not each.file.startswith("flows/")]
    refuse(each for each in late if (each.file, each.module) not in IMPORTED_LATE)
    found = {(each.file, each.module) for each in late}
    refuse(
        f"{' '.join(pair)}: found no such import, expected none in IMPORTED_LATE"
        for pair in IMPORTED_LATE.keys() - found
    )


def test_the_rooms_are_imported_below_gradebook_alone():
    refuse(each for name in FILES for each in imports_of(name) if each.package in ROOMS)


def test_imports_are_absolute():
    refuse(each for name in FILES for each in imports_of(name) if not each.module)


# -------- libraries
def test_rubrics_are_pure():
    pure = PURE | sys.stdlib_module_names
    refuse(each for each in imports_in("rubrics/") if each.package not in pure | libraries_of(each.file))


def test_kinds_of_judges_and_embedders_are_told_apart_by_what_they_state_alone():
    kinds = {"Judge", "PlainJudge", "JudgeSettings", "ReplaySettings", "PanelSettings", "CascadeSettings"}
    kinds |= {"EmbedderSettings", "StaticEmbedder"}
    asked = (
        (name, node)
        for name in SOURCES
        if not name.startswith("tasks/judging/settings/")
        for node in ast.walk(tree_of(FILES[name]))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"
    )
    refuse(f"{name}:{node.lineno}" for name, node in asked if kinds & {*re.findall(r"\w+", ast.unparse(node.args[1]))})


def test_tables_of_the_terminal_are_drawn_in_one_place():
    # `checks` lays out its help without lines; every other table is a `Table` of rubrics/text, given to `show`
    drawing = {"flows/display/terminal.py", "flows/commands/check.py"}
    assert {each.file for each in imports_in() if each.module.startswith("rich.table")} == drawing


def test_the_libraries_of_checks_and_statistics_are_imported_inside_functions_only():
    slow = CHECK_LIBRARIES | STATISTICS_LIBRARIES
    refuse(each for each in imports_in() if each.package in slow and not (each.is_late or each.is_for_types))


def test_prefect_is_imported_where_it_orchestrates_alone():
    refuse(each for each in imports_in() if each.package == "prefect" and not each.file.startswith(WITH_PREFECT))


def test_great_expectations_is_imported_inside_functions_only():
    loaded = [each for each in imports_in() if not (each.is_late or each.is_for_types)]
    refuse(each for each in loaded if each.package == "great_expectations")


def test_a_module_loads_what_users_install_alone():
    # Developers have the packages of all extras, so nothing else fails here where one is missing.
    locked = re.findall(r"^([a-z0-9_.-]+)==", (ROOT / "requirements.lock").read_text(encoding="utf-8"), re.MULTILINE)
    users = [each for each in metadata.distributions() if each.name.lower().replace("_", "-") in {*locked}]
    files = {
        str(each.locate_file(file)) for each in users for file in each.files or () if file.suffix in (".py", ".so")
    }
    loaded = [each for each in imports_in() if not (each.is_late or each.is_for_types or each.file in WITH_AN_EXTRA)]
    libraries = [each for each in loaded if each.package not in sys.stdlib_module_names | {"gradebook", ""}]
    origins = {module: importlib.util.find_spec(module) for module in {each.module for each in libraries}}
    refuse(each for each in libraries if (spec := origins[each.module]) is None or spec.origin not in files)


# -------- tests
def test_no_test_imports_conftest():
    # Python would run it a second time, and everybody wait for a Prefect server at another address.
    refuse(each for name in OTHERS for each in imports_of(name) if each.module.rpartition(".")[2] == "conftest")


def test_helpers_of_tests_are_imported_by_one_name():
    # Under a second name Python would load a second module, with classes of its own.
    helpers = {Path(name).stem for name in OTHERS if name.startswith("tests/support/")} - {"__init__"}
    refuse(each for name in OTHERS for each in imports_of(name) if each.package in helpers)


# -------- names, words and sizes
def test_no_flow_bears_the_name_of_another_module():
    # prefect puts flows/ first on the import path, so flows/statistics.py would stand in for the stdlib's
    taken = sys.stdlib_module_names | metadata.packages_distributions().keys() | {*ROOMS, "sql", "pages", "examples"}
    top = {path.relative_to(ROOT).as_posix() for path in (ROOT / "flows").iterdir() if not path.name.startswith("__")}
    refuse(name for name in top if Path(name).stem in taken)


def test_every_package_says_its_role():
    folders = {Path(name).parent for name in SOURCES} | {Path("tests/support"), Path("gradebook")}
    beginnings = {folder / "__init__.py": ROOT / folder / "__init__.py" for folder in folders}
    words = {name: role_of(path) for name, path in beginnings.items()}
    refuse(f"{name}:1: found {role!r}, expected its role" for name, role in words.items() if role in ("", "TODO."))


def role_of(path: Path) -> str:
    """The docstring of a package, empty where there is none."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "") if path.exists() else ""


def line_count(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Expr) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_no_function_is_longer_than_60_lines_without_its_docstring():
    lengths = [
        (f"{name}:{node.lineno}: {node.name}", line_count(node) - (has_words and line_count(node.body[0])))
        for name in SOURCES
        for node in functions_of(name)
        for has_words in [ast.get_docstring(node) is not None]
    ]
    refuse(f"{function}: found {length} lines" for function, length in lengths if length > MOST_FUNCTION_LINES)
