"""The order of the stages is written once: in `tasks/stages/pipeline.py`."""

import ast
from functools import cache
from pathlib import Path

from tests.support.source_trees import tree_of

ROOT = Path(__file__).parents[2]
COLLECT = "collect_outputs"  # its own command too
PIPELINE, TABLE = "tasks/stages/pipeline.py", "tasks/stages/prefect_tasks.py"
SOURCES = [
    path.relative_to(ROOT).as_posix()
    for folder in ("flows", "tasks", "tests/support")
    for path in sorted((ROOT / folder).rglob("*.py"))
]


@cache
def names_imported(source: str) -> set[tuple[str, str]]:
    """Names that a module imports from others of gradebook, each with its module."""
    imports = [node for node in ast.walk(tree_of(ROOT / source)) if isinstance(node, ast.ImportFrom)]
    return {(str(node.module), alias.name) for node in imports for alias in node.names}


def stage_functions() -> set[tuple[str, str]]:
    """The functions that Prefect shows as tasks of an evaluation: keys of its table, and their modules."""
    tables = [node.value for node in tree_of(ROOT / TABLE).body if isinstance(node, ast.AnnAssign)]
    (names,) = [table for table in tables if isinstance(table, ast.Dict)]
    keys = {key.id for key in names.keys if isinstance(key, ast.Name)}
    return {(module, name) for module, name in names_imported(TABLE) if name in keys - {COLLECT}}


def test_the_stages_are_called_by_the_pipeline_alone():
    stages = stage_functions()
    users = {source: names_imported(source) & stages for source in SOURCES if source != TABLE}
    assert {source: used for source, used in users.items() if used} == {PIPELINE: stages}


def test_a_plan_is_made_for_a_run_and_for_the_price_of_a_change_alone():
    plan = ("gradebook.tasks.methods.plan", "plan_run")
    makers = [source for source in SOURCES if plan in names_imported(source)]
    assert makers == ["tasks/published/cost_preview.py", "tasks/stages/run_stages.py"]
