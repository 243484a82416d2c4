"""Export of rubrics as trees of tasks: categories are groups, criteria are leaves that are met or not."""

from itertools import chain, count
from typing import Any

from gradebook.rubrics.importers.interfaces import Exported
from gradebook.rubrics.importers.json_lines import indented_json
from gradebook.rubrics.importers.metadata import Kept, kept_of, note_lost, note_method, plain_number
from gradebook.rubrics.importers.requirements import are_met_levels
from gradebook.rubrics.model.rows import Row
from gradebook.rubrics.model.rubric import Category, Criterion, Rubric

TASK_KEYS = ("id", "requirements", "weight", "sub_tasks")


def write_tree(rubric: Rubric) -> Exported:
    """Write the rubric as a tree; gates have the weight 0 in it, and penalties are omitted."""
    lost = Kept()
    _note_lost(rubric, lost)
    kept = kept_of(rubric.metadata, "tree")
    weight = kept.get("weight")
    root_weight = weight if isinstance(weight, int | float) and not isinstance(weight, bool) and weight >= 0 else 1
    only = rubric.criteria[0]
    if kept and len(rubric.criteria) == 1 and not rubric.categories and not kept_of(only.metadata, "tree"):
        root = _task(kept, rubric.id, only.description, root_weight, _Ids(lost))  # the root was the criterion
    else:
        ids = _Ids(lost)
        root = _task(kept, rubric.id, rubric.description or rubric.name or rubric.id, root_weight, ids)
        root["sub_tasks"] = _top_tasks(rubric, ids, lost)
    return Exported(indented_json(root), lost.words())


class _Ids:
    """Distinct task ids: a file may repeat one, a copied criterion copies its own, a group may share one.

    The first task with an id gets it; the change of a later one is reported.
    """

    def __init__(self, lost: Kept) -> None:
        self._lost = lost
        self._taken: set[str] = set()

    def take(self, foreign_id: Any, own_id: str) -> str:
        """Id for a task: the one stored by an import, if any, else its own; with a number if both are taken."""
        wanted = foreign_id if isinstance(foreign_id, str) and foreign_id else own_id
        numbered = (f"{own_id}_{number}" for number in count(2))
        task_id = next(name for name in chain((wanted, own_id), numbered) if name not in self._taken)
        if task_id != wanted:
            self._lost.note("the id of a task that another task has (it gets another)")
        self._taken.add(task_id)
        return task_id


def _top_tasks(rubric: Rubric, ids: _Ids, lost: Kept) -> list[Row]:
    """Tasks directly below the root, with everything below them; a group is placed at its first criterion."""
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
        if not _is_last(home, groups, categories):
            lost.note("the order of criteria (those of a group stand together)")
    return groups[None]


def _is_last(home: str | None, groups: dict[str | None, list[Row]], categories: dict[str, Category]) -> bool:
    """Whether nothing follows the last task of a group in the whole tree."""
    while home is not None:
        children, home = groups[home], categories[home].parent
        if groups[home][-1].get("sub_tasks") is not children:
            return False
    return True


def _leaf(criterion: Criterion, ids: _Ids) -> Row:
    kept = kept_of(criterion.metadata, "tree")
    return _task(kept, criterion.id, criterion.description, criterion.own_weight, ids)


def _group(category: Category, children: list[Row], ids: _Ids) -> Row:
    words = category.description or category.name or category.id
    task = _task(kept_of(category.metadata, "tree"), category.id, words, category.weight, ids)
    task["sub_tasks"] = children
    return task


def _task(kept: Row, own_id: str, requirements: str, weight: float, ids: _Ids) -> Row:
    """Node with the data stored by an import."""
    others = {key: value for key, value in kept.items() if key not in TASK_KEYS}
    return {
        "id": ids.take(kept.get("id"), own_id),
        "requirements": requirements,
        "weight": plain_number(weight),
        "sub_tasks": [],
        "task_category": None,
        "finegrained_task_category": None,
        **others,
    }


def _note_lost(rubric: Rubric, lost: Kept) -> None:
    shown = "description" if rubric.description else "description name"  # the text of the root
    note_lost(rubric, "tree", lost, shown, "category levels", "weight parent name description")
    lost.note(*("categories.name" for category in rubric.categories if category.name and category.description))
    for criterion in rubric.criteria:
        if (criterion.weight or 0) < 0:
            lost.note(f"criteria.{criterion.id} (a penalty)")
        note_method(criterion.method, "judge", lost)
        if criterion.levels and not are_met_levels(criterion):
            lost.note("criteria.levels")
