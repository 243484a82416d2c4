"""Import of Scale tasks: one case per turn, one row per response, one rating per annotation of it."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from gradebook.rubrics.importers.case_rows import UNKNOWN_MODEL, criterion_row
from gradebook.rubrics.importers.foreign_file import OpenMapping, Reading, open_rows
from gradebook.rubrics.importers.interfaces import Imported
from gradebook.rubrics.importers.metadata import Kept, filled
from gradebook.rubrics.importers.scale.shapes import Annotation, Message, Task, Turn
from gradebook.rubrics.model.rows import Row
from gradebook.rubrics.text.plain_words import shown

DEFAULT_RATER = "scale"
_SCORES = {"major_issues": 0.0, "minor_issues": 0.5, "no_issues": 1.0}
LEVELS = tuple({"id": level_id, "score": score} for level_id, score in _SCORES.items())
OF_NO_CRITERION = "messages[].annotations[] of no criterion:"
_CHOICES = ("selected_model_id", "likert_value", "justification")
_RATERS = ("rater", "annotator", "annotator_id", "worker_id", "contributor_id")


@dataclass(frozen=True, slots=True)
class _Case:
    """Turn: questions, and the responses to them."""

    reading: Reading
    case_id: str
    task: Task
    turn: Turn
    kept: Row  # stored content of the task, the thread and the turn
    earlier: tuple["_Case", ...]


def read_scale(text: str, path: str) -> Imported:
    """Import one case per turn, one row per response, one rating per annotation. Raises `RubricError`.

    A case's id is the task's, with those of the thread and the turn if there are several. Earlier turns are part of the
    prompt, with their selected response; else the same model's, else the last.
    """
    kept = Kept()
    entries = open_rows(text, path)
    rows: list[Row] = []
    ratings: list[Row] = []
    case_ids: set[str] = set()
    tasks = [(entry, task) for entry in entries if (task := entry.fit(Task, entry.value))]
    for entry, task in tasks:
        _note_kept(task, kept)
        for case in _cases(entry, task):
            if case.case_id in case_ids:
                case.reading.note((), f"found the case {case.case_id!r} again, expected it once")
            case_ids.add(case.case_id)
            rows += _rows(case, kept)
            ratings += _ratings(case, kept)
    entries[0].stop_at_faults()
    return Imported(cases=tuple(rows), ratings=tuple(ratings), kept=kept.words())


def _note_kept(task: Task, kept: Kept) -> None:
    kept.note_all("", task.left)
    for thread in task.threads:
        kept.note_all("threads[].", thread.left_with("annotations"))
        for turn in thread.turns:
            kept.note_all("turns[].", turn.left)
            for each in turn.annotations or []:
                left = each.left_with("id", "metadata") if each.is_criterion else {str(each.key or each.id): each}
                kept.note_all("turns[].annotations[].", left)
            for message in turn.messages:
                unplaced = ("source_id", "annotations") if message.role != "assistant" else ()
                kept.note_all("messages[].", {**message.left_with(*unplaced), **message.content.left})


def _cases(entry: Reading, task: Task) -> Iterator[_Case]:
    for t, thread in enumerate(task.threads):
        thread_id = thread.id or f"thread_{t}"
        earlier: tuple[_Case, ...] = ()
        for u, turn in enumerate(thread.turns):
            turn_id = turn.id or f"turn_{u}"
            named = ((thread_id, task.threads), (turn_id, thread.turns))
            case_id = "/".join([task.task_id, *(name for name, siblings in named if len(siblings) > 1)])
            asked = [_raw(message) for message in turn.asked]
            others = [_raw(each) for each in turn.annotations or [] if not each.is_criterion]
            kept = {
                "task": _raw(task, "threads"),
                "thread": {**_raw(thread, "turns"), "id": thread_id},
                "turn": {**_raw(turn), "id": turn_id, "messages": asked, "annotations": others},
                **_choices(turn),
            }
            reading = entry.within(("threads", t, "turns", u), turn)
            case = _Case(reading, case_id, task, turn, kept, earlier)
            earlier = (*earlier, case)
            yield case


def _choices(turn: Turn) -> Row:
    """Selected model, likert value and justification: annotations, or keys of the turn."""
    both: Row = turn.left
    both |= {str(each.key): each.value for each in turn.annotations or [] if each.value is not None}
    return {name: both[name] for name in _CHOICES if name in both}


def _raw(foreign: OpenMapping, *without: str) -> Row:
    return foreign.model_dump(exclude_unset=True, exclude=set(without))


def _responses(case: _Case) -> Iterator[tuple[int, Message, Row]]:
    """Each response with its index among the turn's messages, and the columns that name its output."""
    counts: Counter[str] = Counter()
    for index, message in enumerate(case.turn.messages):
        if message.role == "assistant":
            model = message.source_id or UNKNOWN_MODEL
            sample = {"sample_index": counts[model]} if counts[model] else {}
            counts[model] += 1
            yield index, message, {"case_id": case.case_id, "model": model, **sample}


def _rows(case: _Case, kept: Kept) -> list[Row]:
    """One row per response; one without an output if there is no response."""
    rows = []
    shared = filled({"criteria": [_criterion(each) for each in case.turn.criteria]})
    for _, message, output in _responses(case):
        own = {**_raw(message, "role", "source_id", "content"), "content": message.content.left}
        columns = {**output, "output": message.content.text, **_prompt(case, output["model"], kept), **shared}
        rows.append({**columns, "metadata": {"scale": {**case.kept, "message": filled(own)}}})
    alone = {"case_id": case.case_id, **shared, "metadata": {"scale": case.kept}}
    return rows or [{**alone, **_prompt(case, None, kept)}]


def _prompt(case: _Case, model: str | None, kept: Kept) -> Row:
    """Messages before this model's response."""
    messages: list[Message] = []
    for past in case.earlier:
        messages += past.turn.asked
        by_model = {output["model"]: message for _, message, output in _responses(past)}
        selected = past.kept.get("selected_model_id")
        name = selected if isinstance(selected, str) and selected in by_model else model
        if name not in by_model and len(by_model) > 1:
            kept.note("prompts after a turn without a selected response (its last one stands in them)")
        if by_model:
            messages.append(by_model.get(name) or list(by_model.values())[-1])
    chat = [{"role": each.role, "content": each.content.text} for each in [*messages, *case.turn.asked]]
    return filled({"prompt": chat})


def _criterion(each: Annotation) -> Row:
    left = each.left_with("id", "metadata")
    levels = [dict(level) for level in LEVELS]
    rated = {"method": {"type": "ratings"}, "levels": levels}
    return criterion_row(str(each.key), str(each.title), "scale", left, category=each.value, **rated)


def _ratings(case: _Case, kept: Kept) -> Iterator[Row]:
    rated_at = filled({"rated_at": case.task.completed_at})
    known = [str(each.key) for each in case.turn.criteria]
    for index, message, output in _responses(case):
        for number, each in enumerate(message.annotations or []):
            place = ("messages", index, "annotations", number)
            if each.rated is None:
                kept.note(f"{OF_NO_CRITERION} {each.key or each.id or number}")
                continue
            if each.rated not in known:
                expected = f"expected one of the turn's criteria: {', '.join(known)}"
                case.reading.note((*place, "metadata", "criteria"), f"found {shown(each.rated)}, {expected}")
            elif each.value not in [*_SCORES]:
                case.reading.note((*place, "value"), f"found {shown(each.value)}, expected one of {', '.join(_SCORES)}")
            else:
                rating = {"criterion_id": each.rated, "rater": _rater(each, case.task), "level_id": each.value}
                yield {**output, **rating, **rated_at}


def _rater(each: Annotation, task: Task) -> str:
    places = (each.left, each.metadata or {}, task.left)
    names = (place.get(name) for place in places for name in _RATERS)
    return next((name for name in names if isinstance(name, str) and name.strip()), DEFAULT_RATER)
