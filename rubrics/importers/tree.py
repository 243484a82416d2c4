"""Trees of tasks, as in PaperBench: groups with weights become categories, leaves become criteria for a judge.

In both formats, a node's score is its children's weighted mean, so the weights are unchanged. The root is the rubric
itself; without `sub_tasks`, it is the only criterion too. A graded tree (`score`, `valid_score`, `explanation`) is of
one output, which it does not name: the grades of its leaves are ratings of the case named by the root's id, of the
model `unknown`. All grades are stored under `metadata.tree` of their nodes too.
"""

import re
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Annotated, Any

from pydantic import Field

from gradebook.rubrics.importers.case_rows import MET_LEVELS, UNKNOWN_MODEL, are_met_levels, met_levels
from gradebook.rubrics.importers.foreign_file import OpenMapping, Reading, indented_json, open_json
from gradebook.rubrics.importers.ids import DistinctIds, identifier
from gradebook.rubrics.importers.metadata import (
    FIRST_VERSION,
    FieldCounts,
    as_metadata,
    drop_empty,
    imported_metadata,
    note_lost,
    note_method,
    plain_number,
)
from gradebook.rubrics.importers.registry import Exported, Format, Imported
from gradebook.rubrics.model.json_values import Row
from gradebook.rubrics.model.rubric import LARGEST_WEIGHT, Category, Criterion, Rubric
from gradebook.rubrics.text.plain_words import Place

MOST_TASKS = 10_000
DEEPEST_TASK = 40
PLACE_SHOWN = 6  # parts of a place that a message shows
GRADER = "tree"  # rater of the grades, as the file names none

_RANDOM_ID = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}|[0-9a-f]{16,}|[0-9]+", re.IGNORECASE)


class Task(OpenMapping):
    """Node of the tree; its other keys are stored as metadata."""

    id: Annotated[str, Field(min_length=1)]
    requirements: Annotated[str, Field(min_length=1)]
    weight: Annotated[float, Field(ge=0, le=LARGEST_WEIGHT, allow_inf_nan=False)]
    sub_tasks: list[Any] | None = None

    @property
    def grade(self) -> Row:
        """Level and notes of the task's grade; empty without a valid one of 0 or 1."""
        score, notes = self.unknown_keys.get("score"), self.unknown_keys.get("explanation")
        if score not in (0, 1) or self.unknown_keys.get("valid_score") is False:
            return {}
        return {
            "level_id": MET_LEVELS[int(score)]["id"],
            **drop_empty({"notes": notes if isinstance(notes, str) else ""}),
        }


@dataclass(frozen=True, slots=True)
class _Node:
    task: Task
    place: Place
    parent: str | None  # enclosing category

    @property
    def depth(self) -> int:
        return len(self.place) // 2


@dataclass(slots=True)
class _ImportedTree:
    """Rubric under construction while the tree is walked."""

    categories: list[Row] = field(default_factory=list)
    criteria: list[Row] = field(default_factory=list)
    ratings: list[Row] = field(default_factory=list)
    kept: FieldCounts = field(default_factory=FieldCounts)
    names: DistinctIds = field(default_factory=lambda: DistinctIds("task"))


def read_tree(text: str, path: str) -> Imported:
    """Import the rubric of one tree of tasks, and the grades of its leaves as ratings of one output."""
    reading = open_json(text, path)
    root = reading.fit_whole(Task)
    growth = _ImportedTree()
    own_keys = _stored_keys(root, growth)
    if root.sub_tasks:
        _note_weightless(root, (), reading)
        _walk(root, growth, reading)
    else:
        _add_leaf(root, {"id": growth.names.take(_id_text(root))}, {}, growth)
    rubric: Row = {
        "id": identifier(_id_text(root), "rubric"),
        "version": FIRST_VERSION,
        "description": root.requirements,
        **drop_empty({"categories": growth.categories}),
        "criteria": growth.criteria,
        **as_metadata("tree", {**own_keys, "weight": plain_number(root.weight)}),
    }
    key_columns = {"case_id": root.id, "model": UNKNOWN_MODEL, "rater": GRADER}
    return replace(
        reading.finish(rubric, growth.kept), ratings=tuple(key_columns | rating for rating in growth.ratings)
    )


def _walk(root: Task, growth: _ImportedTree, reading: Reading) -> None:
    """Visit every node below the root, in file order; without recursion, for any depth."""
    waiting = _children(_Node(root, (), None), None, reading)
    while waiting:
        node = waiting.pop()
        if len(growth.categories) + len(growth.criteria) == MOST_TASKS:
            reading.stop(node.place, f"found more than {MOST_TASKS:,} tasks, expected fewer")
        if node.depth > DEEPEST_TASK:
            message = f"found more than {DEEPEST_TASK} tasks one in another, expected fewer"
            reading.stop(node.place[:PLACE_SHOWN], message)
        name = growth.names.take(_id_text(node.task))
        weight = {"weight": plain_number(node.task.weight)}
        metadata = as_metadata("tree", _stored_keys(node.task, growth))
        if not node.task.sub_tasks:
            home = drop_empty({"category": node.parent})
            _add_leaf(node.task, {"id": name, **home, **weight}, metadata, growth)
            continue
        _note_weightless(node.task, node.place, reading)
        home = drop_empty({"parent": node.parent})
        growth.categories.append({"id": name, **home, **weight, "description": node.task.requirements, **metadata})
        waiting += _children(node, name, reading)


def _children(node: _Node, name: str | None, reading: Reading) -> list[_Node]:
    """Child tasks in reverse order; invalid children become faults. name: their category."""
    entries = node.task.sub_tasks or []
    if len(entries) > MOST_TASKS:
        reading.stop((*node.place, "sub_tasks"), f"found {len(entries):,} tasks, expected at most {MOST_TASKS:,}")
    children: list[_Node] = []
    for index, entry in enumerate(entries):
        here = (*node.place, "sub_tasks", index)
        child = reading.fit(Task, entry, here)
        children += [_Node(child, here, name)] if child else []
    return children[::-1]


def _note_weightless(task: Task, place: Place, reading: Reading) -> None:
    """Record a fault for a group that has no weight, or whose children have none: it has no effect, or no mean."""
    weights = [entry.get("weight") for entry in task.sub_tasks or () if isinstance(entry, dict)]
    if weights and not any(weights):
        reading.note((*place, "sub_tasks"), "found the weight 0 on each of them, expected at least one above 0")
    if place and task.weight == 0:
        reading.note((*place, "weight"), "found 0 on a task with sub_tasks, expected a number above 0")


def _add_leaf(task: Task, columns: Row, metadata: Row, growth: _ImportedTree) -> None:
    question = {"description": task.requirements, "levels": met_levels(), "method": {"type": "judge"}}
    growth.criteria.append({**columns, **question, **metadata})
    if grade := task.grade:
        growth.ratings.append({"criterion_id": columns["id"], **grade})


def _stored_keys(task: Task, growth: _ImportedTree) -> Row:
    """Content of the node without a place in gradebook: its id, its kind of work, its grade."""
    growth.kept.note("id")
    return {"id": task.id, **growth.kept.note_all("", task.unknown_keys)}


def _id_text(task: Task) -> str:
    """Text for a criterion's id: the task's own id if it is readable, else its requirement."""
    return task.requirements if _RANDOM_ID.fullmatch(task.id) else task.id


TASK_KEYS = ("id", "requirements", "weight", "sub_tasks")


def write_tree(rubric: Rubric) -> Exported:
    """Write the rubric as a tree; gates get the weight 0, and penalties are omitted."""
    lost_fields = FieldCounts()
    _note_lost(rubric, lost_fields)
    imported = imported_metadata(rubric.metadata, "tree")
    weight = imported.get("weight")
    root_weight = weight if isinstance(weight, int | float) and not isinstance(weight, bool) and weight >= 0 else 1
    only = rubric.criteria[0]
    if (
        imported
        and len(rubric.criteria) == 1
        and not rubric.categories
        and not imported_metadata(only.metadata, "tree")
    ):
        root = _task(
            imported, rubric.id, only.description, root_weight, _Ids(lost_fields)
        )  # the criterion was imported from the root
    else:
        ids = _Ids(lost_fields)
        root = _task(imported, rubric.id, rubric.description or rubric.name or rubric.id, root_weight, ids)
        root["sub_tasks"] = _top_tasks(rubric, ids, lost_fields)
    return Exported(indented_json(root), lost_fields.words())


class _Ids:
    """Distinct task ids, as files, copied criteria and groups may repeat an id.

    The first task with an id keeps it; changes of later tasks are reported.
    """

    def __init__(self, lost_fields: FieldCounts) -> None:
        self._lost = lost_fields
        self._taken: set[str] = set()

    def take(self, foreign_id: Any, own_id: str) -> str:
        """Id for a task: the id stored by an import, else its own id; with a number if both are taken."""
        wanted_id = foreign_id if isinstance(foreign_id, str) and foreign_id else own_id
        numbered = (f"{own_id}_{number}" for number in count(2))
        task_id = next(name for name in chain((wanted_id, own_id), numbered) if name not in self._taken)
        if task_id != wanted_id:
            self._lost.note("the id of a task that another task has (it gets another)")
        self._taken.add(task_id)
        return task_id


def _top_tasks(rubric: Rubric, ids: _Ids, lost_fields: FieldCounts) -> list[Row]:
    """Children of the root, with their subtrees; a group is placed at its first criterion."""
    categories = {category.id: category for category in rubric.categories}
    groups: dict[str | None, list[Row]] = {None: []}
    for criterion in rubric.criteria:
        if (criterion.weight or 0) < 0:
            continue
        task = _leaf(criterion, ids)
        home = criterion.category if rubric.categories else None
        while home is not None and home not in groups:
            groups[home] = [task]
            task = _group(categories[home], groups[home], ids)
            home = categories[home].parent
        groups[home].append(task)
        if not _is_last_in_tree(home, groups, categories):
            lost_fields.note("the order of criteria (those of a group stand together)")
    return groups[None]


def _is_last_in_tree(home: str | None, groups: dict[str | None, list[Row]], categories: dict[str, Category]) -> bool:
    """Whether the last task of a group is the last task of the whole tree."""
    while home is not None:
        children, home = groups[home], categories[home].parent
        if groups[home][-1].get("sub_tasks") is not children:
            return False
    return True


def _leaf(criterion: Criterion, ids: _Ids) -> Row:
    imported = imported_metadata(criterion.metadata, "tree")
    return _task(imported, criterion.id, criterion.description, criterion.own_weight, ids)


def _group(category: Category, children: list[Row], ids: _Ids) -> Row:
    requirements = category.description or category.name or category.id
    task = _task(imported_metadata(category.metadata, "tree"), category.id, requirements, category.weight, ids)
    task["sub_tasks"] = children
    return task


def _task(imported: Row, own_id: str, requirements: str, weight: float, ids: _Ids) -> Row:
    """Node with the data stored by an import."""
    other_keys = {key: value for key, value in imported.items() if key not in TASK_KEYS}
    return {
        "id": ids.take(imported.get("id"), own_id),
        "requirements": requirements,
        "weight": plain_number(weight),
        "sub_tasks": [],
        "task_category": None,
        "finegrained_task_category": None,
        **other_keys,
    }


def _note_lost(rubric: Rubric, lost_fields: FieldCounts) -> None:
    written_keys = "description" if rubric.description else "description name"  # the text of the root
    note_lost(rubric, "tree", lost_fields, written_keys, "category levels", "weight parent name description")
    lost_fields.note(*("categories.name" for category in rubric.categories if category.name and category.description))
    for criterion in rubric.criteria:
        if (criterion.weight or 0) < 0:
            lost_fields.note(f"criteria.{criterion.id} (a penalty)")
        note_method(criterion.method, "judge", lost_fields)
        if criterion.levels and not are_met_levels(criterion):
            lost_fields.note("criteria.levels")


SUMMARY = "a tree of tasks with weights and requirement texts, as in PaperBench"
FORMAT = Format("tree", SUMMARY, ".json", "rubric", read_tree, write_tree)
