"""Rating session of a run: opened over its outputs, and its ratings moved to the lake.

Gold outputs, rated before, may be mixed into its queue, to compare a rater with the settled ratings.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import orjson
import pyarrow as pa

from gradebook.rubrics.files.case_criteria import read_case_criterion
from gradebook.rubrics.files.versions import rubric_from_body
from gradebook.rubrics.importers.ratings.grading import scales_of_rubric
from gradebook.rubrics.model.errors import InputError, LakeError
from gradebook.rubrics.model.methods import METHODS
from gradebook.rubrics.model.rubric import OVERALL, Criterion, Overall, Rubric
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit, connect_up_to_date, prepare_lake
from gradebook.tasks.lake.rows import Row, make_table, read_published_run, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.ratings.evaluation_file import PAGE_COLUMNS, RATING_SCHEMA, read_ratings
from gradebook.tasks.ratings.pairs import (
    choose_pairs,
    insert_preferences,
    pair_criteria,
    preferences_table,
    shown_first,
)
from gradebook.tasks.ratings.rating_queue import (
    JUDGE_SHOWN,
    MOST_NAMES,
    Queue,
    QueuedOutput,
    choose_outputs,
    page_source,
    step_name,
)
from gradebook.tasks.ratings.rating_store import GOLD, RatingStore, Sheet, Task
from gradebook.tasks.ratings.run_ratings import refuse_ambiguous
from gradebook.tasks.ratings.tables import (
    CLAIM_RATINGS_SCHEMA,
    GIVEN_STEPS_SCHEMA,
    claims_to_rate,
    insert_claim_ratings,
    insert_ratings,
    insert_step_ratings,
)
from gradebook.tasks.rubric_store.questions import add_questions_of_run
from gradebook.tasks.system.processes import call_here

EVERY = 10  # one of so many outputs is gold
_DRAWN = Queue.uncertain.value
Settled = Mapping[str, Mapping[str, Mapping[str, Any]]]  # level_id and score by output and criterion


def settled_ratings(
    connection: duckdb.DuckDBPyConnection, lake: Lake, run_id: str, rubric: Rubric, gold: str
) -> Settled:
    """Settled levels and scores of the run's outputs, from a file of ratings or from people's ratings of a run.

    gold: a ratings file as for `evaluate --ratings`, or the id of a run with decisions of adjudicators or with ratings
    on which at least two raters agree. Raises `InputError` if there is nothing, and `RatingsError`.
    """
    if os.path.isfile(gold):  # noqa: PTH113 - Path raises where a name is too long
        connection.register("file_ratings", read_ratings(Path(gold), rubric))
        connection.execute(_RUN_OUTPUTS, {"run_id": run_id})
        make_table(connection, "ratings/file_matches")
        refuse_ambiguous(connection)
        rows = read_rows(connection, query("ratings/gold_of_file"))
        expected = f"ratings of outputs of {run_id}"
    else:
        read_published_run(connection, lake, gold, query("published/run_with_rubric"))
        add_questions_of_run(connection, run_id, "ratings", "adjudications")
        rows = read_rows(connection, query("ratings/gold_of_run"), gold_run_id=gold)
        expected = "decisions of an adjudicator, or two raters who agree"
    settled: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        of_output = settled.setdefault(str(row["output_id"]), {})
        of_output[str(row["criterion_id"])] = {"level_id": row["level_id"], "score": row["score"]}
    if not settled:
        raise InputError("--gold", f"nothing settled in {gold}", expected)
    return settled


_RUN_OUTPUTS = """
create temp table run_outputs as
select output_id, case_id, model, checkpoint, sample_index from output_scores where run_id = $run_id
"""


def with_gold(tasks: Collection[Task], gold: Collection[Task], run_id: str) -> tuple[Task, ...]:
    """A queue with gold outputs mixed in, in a fixed random order: one in ten, beginning with the first output.

    gold: tasks of all gold outputs. A gold output that is in the queue already is not repeated. In the queue
    `uncertain`, which counts up to the first output that nobody rated, those that are not mixed in keep their places.
    """
    ids = {task.output_id for task in gold}
    other_count = sum(task.output_id not in ids for task in tasks)
    pool = sorted(gold, key=lambda task: task.output_id)
    order = np.random.default_rng(list(f"{run_id} gold".encode())).permutation(len(pool))
    count = min(len(pool), -(-other_count // (EVERY - 1)) or len(pool))
    mixed_ids = {pool[index].output_id for index in order[:count]}
    others = [task for task in tasks if task.output_id not in (mixed_ids if task.selection == _DRAWN else ids)]
    mixed: list[Task] = []
    for block, index in enumerate(order[:count]):
        mixed += [replace(pool[index], selection=GOLD, inclusion_rate=None)]
        mixed += others[block * (EVERY - 1) : (block + 1) * (EVERY - 1)]
    return (*mixed, *others[count * (EVERY - 1) :])


BY_CODE = tuple(name for name, method in METHODS.items() if method.is_by_code)  # whose criteria people need not rate
_RATINGS_SCHEMA = pa.schema([*RATING_SCHEMA, *PAGE_COLUMNS, pa.field("line", pa.int64())])
_DECISIONS_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("run_id", "output_id", "criterion_id", "adjudicator", "level_id")),
        pa.field("score", pa.float64()),
        *(pa.field(name, pa.string()) for name in ("cause", "confidence")),
        pa.field("needs_rubric_update", pa.bool_()),
        pa.field("notes", pa.string()),
        pa.field("decided_at", pa.timestamp("us", tz="UTC")),
        pa.field("question_digest", pa.string()),
    ]
)
STEP_DECISIONS_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("run_id", "output_id", "criterion_id")),
        pa.field("step_index", pa.int32()),
        *(pa.field(name, pa.string()) for name in ("adjudicator", "label")),
        pa.field("score", pa.float64()),
        *(pa.field(name, pa.string()) for name in ("error_type", "error_subtype", "severity", "cause", "confidence")),
        pa.field("needs_rubric_update", pa.bool_()),
        pa.field("notes", pa.string()),
        pa.field("decided_at", pa.timestamp("us", tz="UTC")),
        pa.field("question_digest", pa.string()),
    ]
)


class Answer(NamedTuple):
    """Output to rate. audio: name or `data:` address of its sound, if the text is the transcript."""

    text: str
    audio: str | None


@dataclass(frozen=True, slots=True)
class RatingSession:
    """Open session. criteria: the rubric's on a rater's sheet, by id; the overall row last, if the rubric has one.

    own_count: number of per-case criteria, over all tasks. has_pairs: a sheet shows two outputs; baseline_run_id: the
    run of one of them, None if both are of the run. dataset: the run's files, in whose folder its images and sounds
    are. is_training: gold is shown once a sheet is submitted; has_judge: the judge's level and reasons are on the
    sheet; has_disputes: a lead decides disputes of raters. call: runs functions that need the lake, in this process or
    another.
    """

    lake: Lake
    run_id: str
    rubric: Rubric
    criteria: dict[str, Criterion | Overall]
    store: RatingStore
    task_count: int
    own_count: int = 0
    has_pairs: bool = False
    baseline_run_id: str | None = None
    dataset: str | None = None
    is_training: bool = False
    has_judge: bool = False
    has_disputes: bool = False
    call: Callable[..., Any] = call_here

    def answers(self, sheet: Sheet) -> tuple[Answer, ...]:
        """The output or outputs to rate, in the order in which the sheet's rater sees them."""
        texts = sheet.texts
        if not self.has_pairs:
            return (Answer(texts["output"], texts.get("audio")),)
        sides = (Answer(texts["text_a"], texts["audio_a"]), Answer(texts["text_b"], texts["audio_b"]))
        return sides if shown_first(self.run_id, sheet.rater, sheet.output_id) == "a" else sides[::-1]

    def criteria_of(self, sheet: Sheet) -> dict[str, Criterion | Overall]:
        """Criteria of the session and per-case criteria of the sheet's output, by id; the overall row last.

        Criteria whose condition does not hold for the output are left out.
        """
        own_criteria = {
            criterion.id: criterion for criterion in map(read_case_criterion, sheet.texts.get("criteria", ()))
        }
        left_out = (OVERALL, *sheet.texts.get("left_out", ()))
        criteria = {name: criterion for name, criterion in self.criteria.items() if name not in left_out} | own_criteria
        criteria |= {OVERALL: self.criteria[OVERALL]} if OVERALL in self.criteria else {}
        return pair_criteria(criteria) if self.has_pairs else criteria

    def store_marks(self) -> int:
        """Move new ratings to the lake in one transaction; returns their number.

        An interruption neither loses nor repeats a rating.
        """
        marks = self.store.open_marks()
        if not marks:
            return 0
        self.call(_move_marks, self.lake, self.run_id, self.has_pairs, self.baseline_run_id, marks)
        self.store.set_stored(marks[-1]["mark_id"])
        return len(marks)


def _move_marks(lake: Lake, run_id: str, has_pairs: bool, baseline_run_id: str | None, marks: list[Row]) -> None:
    """Add marks to the tables of the lake that lack them, in one transaction."""
    preferences = preferences_table(marks if has_pairs else [], run_id, baseline_run_id)
    single = [] if has_pairs else _with_questions(lake, run_id, marks)
    source = page_source(run_id)
    ratings = _ratings_table([mark for mark in single if _is_plain(mark)], source)
    open_steps = [mark for mark in single if _is_step(mark) and not _is_decision(mark)]
    steps = _marks_table(open_steps, "label", source, GIVEN_STEPS_SCHEMA)
    claims = _marks_table([mark for mark in single if _is_claim(mark)], "verdict", source, CLAIM_RATINGS_SCHEMA)
    decisions = {
        table: _decisions_table(
            [mark for mark in single if _is_decision(mark) and _is_step(mark) == of_steps], run_id, schema
        )
        for table, of_steps, schema in (
            ("adjudications", False, _DECISIONS_SCHEMA),
            ("step_adjudications", True, STEP_DECISIONS_SCHEMA),
        )
    }

    def insert(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        insert_preferences(connection, preferences)
        connection.register("given_ratings", ratings)
        insert_ratings(connection, "given_ratings")
        insert_step_ratings(connection, steps)
        insert_claim_ratings(connection, claims)
        for table, rows in decisions.items():
            connection.register("given_decisions", rows)
            connection.execute(f"insert into {table} by name (from given_decisions except from {table})")

    commit(lake, f"ratings of the run {run_id}", insert)


def _with_questions(lake: Lake, run_id: str, marks: list[Row]) -> list[Row]:
    """Marks with `question_digest`, of the text that their raters saw."""
    with connect_up_to_date(lake) as connection:
        add_questions_of_run(connection, run_id)
        rows = connection.execute("select criterion_id, output_id, question_digest from asked_questions").fetchall()
    digests = {(criterion_id, output_id): digest for criterion_id, output_id, digest in rows}
    # A mark of a step or claim is named after its criterion: `steps.3`.
    keyed = ((mark, mark["criterion_id"].partition(".")[0], mark["output_id"]) for mark in marks)
    return [
        {**mark, "question_digest": digests.get((name, output_id), digests.get((name, None)))}
        for mark, name, output_id in keyed
    ]


@contextmanager
def opened_session(  # noqa: PLR0913 - each is an option of the command
    lake: Lake,
    run: str | Callable[[Lake], str],
    *,
    queue: Queue,
    count: int,
    overlap: int,
    criterion_ids: Sequence[str] = (),
    has_pairs: bool = False,
    baseline_run_id: str | None = None,
    gold: str | None = None,
    is_training: bool = False,
    next_ids: Sequence[str] = (),
    has_names: bool = False,
    has_judge: bool = False,
    call: Callable[..., Any] = call_here,
) -> Iterator[RatingSession]:
    """Open the session of a run and a queue, or resume the one that exists.

    run: its id, or a function that finds it, called through `call`. criterion_ids: the criteria to rate; by default
    those that no code decides. has_pairs: compare two outputs of a case, of the run or of a baseline and the run. gold:
    a ratings file or a run whose settled outputs are mixed in; is_training: a rater sees the settled levels after
    rating such an output. next_ids, has_names: as for `choose_outputs`. has_judge: show the judge's verdict, in a
    separate session, whose ratings record it. call: as of the session. Raises `InputError` for an unknown run or
    criterion, an empty queue, or if another process serves the session.
    """
    options = _TaskOptions(
        run,
        queue,
        count,
        tuple(criterion_ids),
        has_pairs,
        baseline_run_id,
        gold,
        tuple(next_ids),
        has_names,
        has_judge,
    )
    run_id, row, name, tasks = call(_find_tasks, lake, options)
    rubric = rubric_from_body(row["body"])
    criteria = _criteria_to_rate(rubric, criterion_ids)
    criteria = pair_criteria(criteria) if has_pairs else criteria
    own_count = sum(len(task.texts.get("criteria", ())) for task in tasks)
    store = RatingStore(lake.root / "rating" / f"{run_id}.{name}.sqlite", overlap)
    try:
        session = RatingSession(
            *(lake, run_id, rubric, criteria, store, len(tasks), own_count, has_pairs, baseline_run_id, row["dataset"]),
            is_training=is_training,
            has_judge=has_judge,
            has_disputes=queue is Queue.adjudicate and not has_pairs,
            call=call,
        )
        session.store_marks()  # first: the new queue drops marks of outputs whose texts changed
        store.set_tasks(tasks)
        yield session
        session.store_marks()
    finally:
        store.close()


class _TaskOptions(NamedTuple):
    """Options that choose the tasks of a session, as of `opened_session`."""

    run: str | Callable[[Lake], str]
    queue: Queue
    most: int
    criterion_ids: tuple[str, ...]
    has_pairs: bool
    baseline_run_id: str | None
    gold: str | None
    next_ids: tuple[str, ...]
    has_names: bool
    has_judge: bool


def _find_tasks(lake: Lake, options: _TaskOptions) -> tuple[str, Row, str, tuple[Task, ...]]:
    """The run's id and row, the name of the queue and its tasks. Raises as `opened_session`."""
    run_id = options.run if isinstance(options.run, str) else options.run(lake)
    with connect_up_to_date(lake, is_pinned=True) as connection:
        row = read_published_run(connection, lake, run_id, query("published/run_with_rubric"))
        if row["body"] is None:
            raise LakeError(lake.name, f"no rubric {row['rubric_id']} {row['rubric_version']}", "the run's rubric")
        rubric = rubric_from_body(row["body"])
        own_criteria = _case_criteria(connection, run_id, rubric, options.criterion_ids)
        criteria = _criteria_to_rate(rubric, options.criterion_ids)
        if not own_criteria and not any(name != OVERALL for name in criteria):
            expected = "a criterion that people can judge better than code"
            raise InputError(
                rubric.id, "only criteria that code decides", expected, "--criterion names one all the same"
            )
        if options.has_pairs:
            if options.baseline_run_id is not None:
                read_published_run(connection, lake, options.baseline_run_id, query("published/run_with_rubric"))
                own_criteria |= _case_criteria(connection, options.baseline_run_id, rubric, options.criterion_ids)
            name = f"pairs.{options.baseline_run_id or run_id}"
            tasks = choose_pairs(connection, run_id, options.baseline_run_id, options.most)
        else:
            queue, next_ids = options.queue, options.next_ids
            outputs = choose_outputs(
                connection,
                run_id,
                queue,
                options.most,
                next_ids,
                has_names=options.has_names,
                criterion_ids={*criteria, *(name for of_output in own_criteria.values() for name in of_output)},
                made_ids={*scales_of_rubric(rubric).counts.values()},
            )
            name, tasks = queue.value, _with_claims(connection, run_id, criteria, _tasks(connection, outputs))
            if options.has_judge:
                name, tasks = f"{name}.{JUDGE_SHOWN}", _with_judge(connection, run_id, tasks)
        if options.gold is not None:
            settled = settled_ratings(connection, lake, run_id, rubric, options.gold)
            tasks = with_gold(tasks, _gold_tasks(connection, settled, criteria, own_criteria), run_id)
        tasks = _with_case_criteria(
            tasks, own_criteria, has_others=any(name != OVERALL for name in criteria) or options.has_pairs
        )
        if rubric.conditional_criteria:
            run_ids = [name for name in (run_id, options.baseline_run_id) if name is not None]
            tasks = _without_unmet(connection, run_ids, criteria, tasks)
    prepare_lake(lake)
    return run_id, row, name, tasks


def _tasks(connection: duckdb.DuckDBPyConnection, outputs: Sequence[QueuedOutput]) -> tuple[Task, ...]:
    """Tasks with the texts that a rater sees; outputs that the lake no longer has are left out."""
    connection.register("chosen_outputs", pa.table({"output_id": [output.output_id for output in outputs]}))
    texts = {row.pop("output_id"): row for row in map(dict, read_rows(connection, query("ratings/queue_texts")))}
    for text in texts.values():
        # Sheets of an earlier gradebook lack them, and changed texts are rated again.
        for name in ("audio", "steps", "files_changed"):
            if text[name] is None:
                del text[name]
    agreed = _agreed_steps(connection, outputs)
    return tuple(
        Task(
            output.output_id,
            output.selection,
            output.inclusion_rate,
            {**texts[output.output_id], "opinions": output.opinions, **agreed.get(output.output_id, {})},
        )
        for output in outputs
        if output.output_id in texts
    )


def _with_claims(
    connection: duckdb.DuckDBPyConnection,
    run_id: str,
    criteria: Mapping[str, Criterion | Overall],
    tasks: Sequence[Task],
) -> tuple[Task, ...]:
    """Tasks with the claims that the run found in their texts, of the criteria to rate."""
    claims_by_output = claims_to_rate(connection, run_id, {task.output_id: task.texts for task in tasks})
    tasks_with_claims = (
        (task, {name: claims for name, claims in claims_by_output.get(task.output_id, {}).items() if name in criteria})
        for task in tasks
    )
    return tuple(
        replace(task, texts={**task.texts, "claims": claims}) if claims else task for task, claims in tasks_with_claims
    )


def _with_judge(connection: duckdb.DuckDBPyConnection, run_id: str, tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Tasks with the judge's verdicts by criterion, under the selection `JUDGE_SHOWN`."""
    connection.register("chosen_outputs", pa.table({"output_id": [task.output_id for task in tasks]}))
    judged: dict[str, dict[str, Row]] = {}
    for row in map(dict, read_rows(connection, query("ratings/judged_levels"), run_id=run_id)):
        judged.setdefault(row.pop("output_id"), {})[row.pop("criterion_id")] = row
    return tuple(
        replace(
            task,
            selection=JUDGE_SHOWN,
            inclusion_rate=None,
            texts={**task.texts, "judged": judged.get(task.output_id, {})},
        )
        for task in tasks
    )


def _agreed_steps(
    connection: duckdb.DuckDBPyConnection, outputs: Sequence[QueuedOutput]
) -> dict[str, dict[str, dict[str, list[Any]]]]:
    """Marks of undisputed steps, of outputs with disputed ones: by output, `agreed`: by criterion, as `StepMark`."""
    disputed = {output.output_id: output.opinions for output in outputs if any("." in name for name in output.opinions)}
    if not disputed:
        return {}
    connection.register("chosen_outputs", pa.table({"output_id": list(disputed)}))
    agreed: dict[str, dict[str, dict[str, list[Any]]]] = {}
    for row in read_rows(connection, query("ratings/agreed_steps")):
        output_id, criterion_id, step = row["output_id"], row["criterion_id"], row["step_index"]
        is_open = step_name(criterion_id, step) in disputed[output_id]
        if not is_open and row["label"] is not None:
            by_criterion = agreed.setdefault(output_id, {"agreed": {}})["agreed"]
            mark = (row[name] for name in ("label", "score", "error_type", "error_subtype", "severity", "rationale"))
            by_criterion.setdefault(criterion_id, []).append([str(step), *mark])
    return agreed


def _gold_tasks(
    connection: duckdb.DuckDBPyConnection,
    settled: Settled,
    criteria: Mapping[str, Criterion | Overall],
    own_criteria: Mapping[str, Mapping[str, str]],
) -> list[Task]:
    """Outputs with a settled level on a criterion of the sheet."""
    gold_levels = {
        output: {
            name: level for name, level in levels.items() if name in criteria or name in own_criteria.get(output, {})
        }
        for output, levels in settled.items()
    }
    tasks = _tasks(connection, [QueuedOutput(output, GOLD, None) for output, levels in gold_levels.items() if levels])
    return [replace(task, texts={**task.texts, "gold": gold_levels[task.output_id]}) for task in tasks]


def _criteria_to_rate(rubric: Rubric, criterion_ids: Sequence[str]) -> dict[str, Criterion | Overall]:
    """Named criteria of the rubric or, by default, those that no code decides; and its overall row."""
    ids = criterion_ids or [criterion.id for criterion in rubric.criteria if not criterion.method.is_by_code]
    criteria: dict[str, Criterion | Overall] = {
        criterion.id: criterion for criterion in rubric.criteria if criterion.id in ids
    }
    return criteria | ({OVERALL: rubric.overall} if rubric.overall else {})


def _case_criteria(
    connection: duckdb.DuckDBPyConnection, run_id: str, rubric: Rubric, criterion_ids: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Per-case criteria of the run, as JSON, by output and id: those named by criterion_ids.

    By default those that no code decides. Raises `InputError` for a name that neither the rubric nor a row has.
    """
    rows = read_rows(connection, query("ratings/own_criteria"), run_id=run_id)
    known_ids = dict.fromkeys(
        [*(criterion.id for criterion in rubric.criteria), *(row["criterion_id"] for row in rows)]
    )
    if unknown := next((criterion_id for criterion_id in criterion_ids if criterion_id not in known_ids), None):
        raise InputError("--criterion", f"{unknown!r}", f"one of {', '.join([*known_ids][:MOST_NAMES])}")
    own_criteria: dict[str, dict[str, str]] = {}
    for row in rows:
        if row["criterion_id"] in criterion_ids if criterion_ids else row["method"] not in BY_CODE:
            own_criteria.setdefault(row["output_id"], {})[row["criterion_id"]] = row["body"]
    return own_criteria


def _with_case_criteria(
    tasks: Sequence[Task], own_criteria: Mapping[str, Mapping[str, str]], *, has_others: bool
) -> tuple[Task, ...]:
    """Tasks with their per-case criteria: of a pair, those that both outputs have with the same text.

    has_others: whether the rubric has criteria to rate; if not, tasks without per-case criteria are left out.
    """
    tasks_to_rate = []
    for task in tasks:
        first, *others = (own_criteria.get(output_id, {}) for output_id in task.output_id.split())
        bodies = [body for name, body in first.items() if all(other.get(name) == body for other in others)]
        if bodies:
            tasks_to_rate.append(replace(task, texts={**task.texts, "criteria": bodies}))
        elif has_others:
            tasks_to_rate.append(task)
    return tuple(tasks_to_rate)


def _without_unmet(
    connection: duckdb.DuckDBPyConnection,
    run_ids: Sequence[str],
    criteria: Mapping[str, Criterion | Overall],
    tasks: Sequence[Task],
) -> tuple[Task, ...]:
    """Tasks with the criteria whose condition does not hold, as `left_out`; those with nothing to rate are dropped."""
    unmet: dict[str, list[str]] = {}
    for row in read_rows(connection, query("ratings/unmet_conditions"), run_ids=list(run_ids)):
        unmet.setdefault(row["output_id"], []).append(row["criterion_id"])
    tasks_to_rate = []
    for task in tasks:
        left_out = sorted({name for output_id in task.output_id.split() for name in unmet.get(output_id, ())})
        if "criteria" in task.texts or any(name != OVERALL and name not in left_out for name in criteria):
            tasks_to_rate.append(replace(task, texts={**task.texts, "left_out": left_out}) if left_out else task)
    return tuple(tasks_to_rate)


def _is_decision(mark: Row) -> bool:
    return bool(mark["selection"] == Queue.adjudicate.value)


def _is_step(mark: Row) -> bool:
    return "step" in orjson.loads(mark["details"])


def _is_claim(mark: Row) -> bool:
    return "claim" in orjson.loads(mark["details"])


def _is_plain(mark: Row) -> bool:
    """Whether the mark rates a whole criterion."""
    return not (_is_decision(mark) or _is_step(mark) or _is_claim(mark))


def _marks_table(marks: list[Row], level: str, source: str, schema: pa.Schema) -> pa.Table:
    """Marks of steps or claims as a schema. level: the schema's column for the chosen level's id."""
    rows = []
    for mark in marks:
        columns = {level: mark["level_id"], "rationale": mark["notes"], "source": source}
        rated_at = datetime.fromisoformat(mark["rated_at"])
        rows.append({**mark, **columns, **orjson.loads(mark["details"]), "rated_at": rated_at})
    return pa.Table.from_pylist(rows, schema=schema)


def _ratings_table(marks: list[Row], source: str) -> pa.Table:
    """Marks as `RATING_SCHEMA` with `PAGE_COLUMNS` and `line`."""
    rows = []
    for line, mark in enumerate(marks):
        gold = orjson.loads(mark["gold"] or "{}").get(mark["criterion_id"], {})
        evidence = orjson.loads(mark["details"]).get("evidence")
        columns = {"source": source, "line": line, "gold_score": gold.get("score"), "evidence": evidence}
        rows.append({**mark, **columns, "rated_at": datetime.fromisoformat(mark["rated_at"])})
    return pa.Table.from_pylist(rows, schema=_RATINGS_SCHEMA)


def _decisions_table(marks: list[Row], run_id: str, schema: pa.Schema) -> pa.Table:
    rows = []
    for mark in marks:
        details = orjson.loads(mark["details"])
        details.pop("evidence", None)
        needs_update = details.pop("needs_rubric_update", None) is not None
        columns = {"run_id": run_id, "adjudicator": mark["rater"], "needs_rubric_update": needs_update}
        if "step" in details:
            columns |= {"step_index": int(details["step"]), "label": mark["level_id"]}
        rows.append({**mark, **details, **columns, "decided_at": datetime.fromisoformat(mark["rated_at"])})
    return pa.Table.from_pylist(rows, schema=schema)
