"""Export of case rows as Scale tasks, with turns and responses restored."""

from collections.abc import Iterable, Sequence

from gradebook.rubrics.importers.case_export import Case, export_cases
from gradebook.rubrics.importers.interfaces import Exported
from gradebook.rubrics.importers.json_lines import indented_json
from gradebook.rubrics.importers.metadata import kept_of
from gradebook.rubrics.importers.scale.importing import read_scale
from gradebook.rubrics.importers.scale.shapes import CRITERION_KEY, KINDS
from gradebook.rubrics.model.rows import Row


def write_scale(rows: Sequence[Row]) -> Exported:
    """Write a JSON list of tasks, with turns and responses restored. Raises `RubricError`."""
    return export_cases(rows, lambda cases: indented_json(_tasks(cases)), read_scale)


def criterion_key(criterion_id: str, number: int) -> str:
    """Key of a criterion's annotation: its id, if that has the form of a key. number: its place in the case, from 0."""
    return criterion_id if CRITERION_KEY.fullmatch(criterion_id) else f"rubric_0_criteria_{number}"


def _tasks(cases: Iterable[Case]) -> list[Row]:
    tasks: list[Row] = []
    slots: dict[tuple[str, ...], list[Row]] = {}
    for case in cases:
        kept = case.kept("scale")
        task = {"task_id": case.case_id, **kept_of(kept, "task")}
        thread = {"id": "thread_0", **kept_of(kept, "thread")}
        turn = _turn(case, kept_of(kept, "turn"))
        inner = tasks
        ids: tuple[str, ...] = ()
        for own, name in ((task, "threads"), (thread, "turns"), (turn, "messages")):
            ids = (*ids, str(own.get("task_id" if name == "threads" else "id")))
            if ids not in slots:
                slots[ids] = [*turn["messages"]] if name == "messages" else []
                inner.append({**own, name: slots[ids]})
            inner = slots[ids]
        if case.output is not None:
            message = {**kept_of(kept, "message"), "role": "assistant", "source_id": case.model}
            inner.append({**message, "content": {**kept_of(message, "content"), "text": case.output}})
    return tasks


def _turn(case: Case, kept: Row) -> Row:
    """The turn without its responses, as it was read, with the current criteria."""
    annotations = []
    for number, each in enumerate(case.criteria):
        key = criterion_key(each.id, number)
        kind = {"value": each.category} if each.category in KINDS else {}
        annotations.append({**kept_of(each.metadata, "scale"), "key": key, "title": each.description, **kind})
    others = kept["annotations"] if isinstance(kept.get("annotations"), list) else []
    prompt = case.prompt if isinstance(case.prompt, list) else [{"role": "user", "content": case.prompt}]
    asked = [{"role": m["role"], "content": {"text": m["content"]}} for m in prompt if m["role"] != "assistant"]
    messages = {} if isinstance(kept.get("messages"), list) else {"messages": asked}
    return {"id": "turn_0", **kept, **messages, "annotations": [*annotations, *others]}
