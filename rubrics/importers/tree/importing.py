"""Import of trees of tasks, node by node."""

import re
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import Field

from gradebook.rubrics.importers.case_rows import UNKNOWN_MODEL
from gradebook.rubrics.importers.foreign_file import OpenMapping, Reading, open_json
from gradebook.rubrics.importers.ids import DistinctIds, identifier
from gradebook.rubrics.importers.interfaces import Imported
from gradebook.rubrics.importers.metadata import FIRST_VERSION, Kept, filled, kept_as, plain_number
from gradebook.rubrics.importers.requirements import MET_LEVELS, met_levels
from gradebook.rubrics.model.rows import Row
from gradebook.rubrics.model.rubric import LARGEST_WEIGHT
from gradebook.rubrics.text.plain_words import Place

MOST_TASKS = 10_000
DEEPEST_TASK = 40
PLACE_SHOWN = 6  # parts of a place shown in a message
GRADER = "tree"  # rater of the grades, as the file names none

_RANDOM_ID = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}|[0-9a-f]{16,}|[0-9]+", re.IGNORECASE)


class Task(OpenMapping):
    """Node of the tree; other keys of the format are stored."""

    id: Annotated[str, Field(min_length=1)]
    requirements: Annotated[str, Field(min_length=1)]
    weight: Annotated[float, Field(ge=0, le=LARGEST_WEIGHT, allow_inf_nan=False)]
    sub_tasks: list[Any] | None = None

    @property
    def grade(self) -> Row:
        """Level and notes of the task's grade; empty without a valid one of 0 or 1."""
        score, notes = self.left.get("score"), self.left.get("explanation")
        if score not in (0, 1) or self.left.get("valid_score") is False:
            return {}
        return {"level_id": MET_LEVELS[int(score)]["id"], **filled({"notes": notes if isinstance(notes, str) else ""})}


@dataclass(frozen=True, slots=True)
class _Node:
    task: Task
    place: Place
    parent: str | None  # enclosing category

    @property
    def depth(self) -> int:
        return len(self.place) // 2


@dataclass(slots=True)
class _Growth:
    """Rubric under construction while the tree is walked."""

    categories: list[Row] = field(default_factory=list)
    criteria: list[Row] = field(default_factory=list)
    ratings: list[Row] = field(default_factory=list)
    kept: Kept = field(default_factory=Kept)
    names: DistinctIds = field(default_factory=lambda: DistinctIds("task"))


def read_tree(text: str, path: str) -> Imported:
    """Import the rubric of one tree of tasks, and the grades of its leaves as ratings of one output."""
    reading = open_json(text, path)
    root = reading.fit_whole(Task)
    growth = _Growth()
    own_keys = _kept_keys(root, growth)
    if root.sub_tasks:
        _note_weightless(root, (), reading)
        _walk(root, growth, reading)
    else:
        _add_leaf(root, {"id": growth.names.take(_words_of(root))}, {}, growth)
    rubric: Row = {
        "id": identifier(_words_of(root), "rubric"),
        "version": FIRST_VERSION,
        "description": root.requirements,
        **filled({"categories": growth.categories}),
        "criteria": growth.criteria,
        **kept_as("tree", {**own_keys, "weight": plain_number(root.weight)}),
    }
    place = {"case_id": root.id, "model": UNKNOWN_MODEL, "rater": GRADER}
    return replace(reading.finish(rubric, growth.kept), ratings=tuple(place | rating for rating in growth.ratings))


def _walk(root: Task, growth: _Growth, reading: Reading) -> None:
    """Visit every node below the root, in file order; without recursion, for any depth."""
    waiting = _children(_Node(root, (), None), None, reading)
    while waiting:
        node = waiting.pop()
        if len(growth.categories) + len(growth.criteria) == MOST_TASKS:
            reading.stop(node.place, f"found more than {MOST_TASKS:,} tasks, expected fewer")
        if node.depth > DEEPEST_TASK:
            words = f"found more than {DEEPEST_TASK} tasks one in another, expected fewer"
            reading.stop(node.place[:PLACE_SHOWN], words)
        name = growth.names.take(_words_of(node.task))
        weight = {"weight": plain_number(node.task.weight)}
        kept = kept_as("tree", _kept_keys(node.task, growth))
        if not node.task.sub_tasks:
            home = filled({"category": node.parent})
            _add_leaf(node.task, {"id": name, **home, **weight}, kept, growth)
            continue
        _note_weightless(node.task, node.place, reading)
        home = filled({"parent": node.parent})
        growth.categories.append({"id": name, **home, **weight, "description": node.task.requirements, **kept})
        waiting += _children(node, name, reading)


def _children(node: _Node, name: str | None, reading: Reading) -> list[_Node]:
    """Tasks directly below, the first one last; invalid ones become faults. name: their category."""
    entries = node.task.sub_tasks or []
    if len(entries) > MOST_TASKS:
        reading.stop((*node.place, "sub_tasks"), f"found {len(entries):,} tasks, expected at most {MOST_TASKS:,}")
    found: list[_Node] = []
    for index, entry in enumerate(entries):
        here = (*node.place, "sub_tasks", index)
        child = reading.fit(Task, entry, here)
        found += [_Node(child, here, name)] if child else []
    return found[::-1]


def _note_weightless(task: Task, place: Place, reading: Reading) -> None:
    """Record groups whose parts, or which themselves, have no weight: they have no mean or no effect."""
    weights = [entry.get("weight") for entry in task.sub_tasks or () if isinstance(entry, dict)]
    if weights and not any(weights):
        reading.note((*place, "sub_tasks"), "found the weight 0 on each of them, expected at least one above 0")
    if place and task.weight == 0:
        reading.note((*place, "weight"), "found 0 on a task with sub_tasks, expected a number above 0")


def _add_leaf(task: Task, columns: Row, kept: Row, growth: _Growth) -> None:
    question = {"description": task.requirements, "levels": met_levels(), "method": {"type": "judge"}}
    growth.criteria.append({**columns, **question, **kept})
    if grade := task.grade:
        growth.ratings.append({"criterion_id": columns["id"], **grade})


def _kept_keys(task: Task, growth: _Growth) -> Row:
    """Content of the node without a place in gradebook: its own id, its kind of work, its grade."""
    growth.kept.note("id")
    return {"id": task.id, **growth.kept.note_all("", task.left)}


def _words_of(task: Task) -> str:
    """Text to make an id of: the task's own id if it is readable, else its requirement."""
    return task.requirements if _RANDOM_ID.fullmatch(task.id) else task.id
