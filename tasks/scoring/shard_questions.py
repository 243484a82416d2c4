"""Open questions of a shard, output by output: all judged criteria of one output, then the next."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.prompts.prompt import DEFAULT_STYLE, PromptStyle, sees_of, view_of
from gradebook.tasks.datasets.case_criteria import own_criteria
from gradebook.tasks.judging.replies.batched_criteria import PackedQuestion, packs_of
from gradebook.tasks.judging.replies.question import Question
from gradebook.tasks.planning.cases import PlannedMedia, read_stored_cases
from gradebook.tasks.planning.shard_plan import shard_plan_files
from gradebook.tasks.workspace.folder import RunFolder

_Key = tuple[str, int, bool, bool]  # request key, replicate, is_swapped, is_open
_KEY_COLUMNS = ("output_id", "criterion_id", "request_key", "replicate", "is_swapped")
SLOT_COLUMNS = ("case_id", "model", "checkpoint", "sample_index")


def shard_questions(  # noqa: PLR0913 - the judge, the plan and the shard
    folder: RunFolder,
    rubric: Rubric,
    shard: str,
    shard_index: int,
    style: PromptStyle = DEFAULT_STYLE,
    folders: tuple[Path, ...] | None = None,
    judge_index: int = 0,
    chosen: Collection[tuple[str, str]] | None = None,
    packing: int = 1,
    is_held_too: bool = False,
) -> Iterator[Question | PackedQuestion]:
    """Yield the open questions of a shard, output by output in the shard's order.

    The questions about an output follow one another, as they share the longest part of their prompts. folders: as for
    `plan_run`; a question whose images or sounds cannot be shown raises `UnreadableMedia` when its request is rendered.
    judge_index: index among the judge's members; style: form of that member's prompts. chosen: outputs and criteria to
    ask about; None: all. packing: criteria per request; batched criteria are asked whole if one of them is open.
    is_held_too: include questions answered in the ledger, for replies that arrive after another run's.
    """
    keys = _planned_keys(folder, rubric, shard_index, judge_index, chosen, is_whole=packing > 1 or is_held_too)
    styles = {False: style, True: style.swapped}
    own = _own_by_output(folder, shard, shard_index)
    judged = rubric.judged_criteria
    if not keys:
        return
    views = {*map(view_of, chain(judged, *own.values()))}
    with_audio, with_steps = any(hears for hears, _ in views), any(sees != "answer" for _, sees in views)
    media, sounds = (PlannedMedia(shard_index, folder, folders, is_heard=is_heard) for is_heard in (False, True))
    slots = zip(*(pq.read_table(shard, columns=[name]).column(0).to_pylist() for name in SLOT_COLUMNS), strict=True)
    for (output_id, case), (case_id, model, checkpoint, sample_index) in zip(
        read_stored_cases(shard, with_audio=with_audio, with_steps=with_steps), slots, strict=True
    ):
        asked = [(each, keys.get((output_id, each.id), ())) for each in (*judged, *own.get(output_id, ()))]
        if not is_held_too and not any(is_open for _, held in asked for *_, is_open in held):
            continue
        shown = {False: media.show(output_id, case)}
        if with_audio:
            shown[True] = sounds.show(output_id, case)
        slot = (case_id, model, checkpoint, sample_index)
        questions = [
            (
                Question(
                    output_id,
                    criterion,
                    shown[criterion.hears_audio].seen(sees_of(criterion)),
                    key,
                    replicate,
                    *slot,
                    style=styles[is_swapped],
                ),
                is_open,
            )
            for criterion, held in sorted(asked, key=lambda each: view_of(each[0]))
            for key, replicate, is_swapped, is_open in held
        ]
        if packing == 1:
            yield from (question for question, is_open in questions if is_open or is_held_too)
        else:
            yield from _packed(questions, judged, packing)


def _packed(
    questions: Sequence[tuple[Question, bool]], judged: Sequence[Criterion], packing: int
) -> Iterator[PackedQuestion]:
    """Questions about one output as batched criteria, if one of a batch is open; per-case criteria are asked alone."""
    of_rubric = {criterion.id for criterion in judged}
    opinions: dict[object, dict[str, tuple[Question, bool]]] = defaultdict(dict)
    for question, is_open in questions:
        opinions[question.replicate, question.style][question.criterion.id] = question, is_open
    for of_one in opinions.values():
        asked = [each.criterion for each, _ in of_one.values()]
        batchable = [criterion for criterion in asked if criterion.id in of_rubric]
        alone = [(criterion,) for criterion in asked if criterion.id not in of_rubric]
        for pack in (*packs_of(batchable, packing), *alone):
            members = [of_one[criterion.id] for criterion in pack]
            if any(is_open for _, is_open in members):
                yield PackedQuestion(tuple(each for each, _ in members))


def _planned_keys(
    folder: RunFolder,
    rubric: Rubric,
    shard_index: int,
    judge_index: int,
    chosen: Collection[tuple[str, str]] | None,
    *,
    is_whole: bool,
) -> dict[tuple[str, str], tuple[_Key, ...]]:
    """Request keys of a judge, by output and criterion; answered ones only if is_whole."""
    keys: dict[tuple[str, str], tuple[_Key, ...]] = {}
    for file in shard_plan_files(folder, rubric, shard_index):
        planned = pq.read_table(file, columns=[*_KEY_COLUMNS, "judge_index", "status"])
        planned = planned.append_column("is_open", pc.is_null(planned.column("status")))
        is_mine = pc.equal(planned.column("judge_index"), judge_index)
        rows = planned.filter(is_mine if is_whole else pc.and_(is_mine, planned.column("is_open")))
        columns = (rows.column(name).to_pylist() for name in (*_KEY_COLUMNS, "is_open"))
        for output_id, criterion_id, key, replicate, is_swapped, is_open in zip(*columns, strict=True):
            place = (output_id, criterion_id)
            is_chosen = chosen is None or place in chosen
            if is_chosen or is_whole:
                keys[place] = (*keys.get(place, ()), (key, replicate, is_swapped, is_open and is_chosen))
    return keys


def _own_by_output(folder: RunFolder, shard: str, shard_index: int) -> dict[str, Sequence[Criterion]]:
    """Judged per-case criteria, by output."""
    if not folder.case_criteria_file(shard_index).exists():
        return {}
    output_ids: pa.ChunkedArray = pq.read_table(shard, columns=["output_id"]).column(0)
    criteria: dict[str, Any] = {}
    for own in own_criteria(folder, shard_index, "judge"):
        for output_id in output_ids.take(own.row_indices).to_pylist():
            criteria.setdefault(output_id, []).append(own.criterion)
    return criteria
