"""Rating session of a run: opened over its outputs, and its ratings moved to the lake."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

import duckdb
import orjson
import pyarrow as pa

from gradebook.rubrics.files.case_criteria import read_case_criterion
from gradebook.rubrics.files.digest import rubric_from_body
from gradebook.rubrics.importers.ratings.grading import scales_of_rubric
from gradebook.rubrics.model.errors import InputError, LakeError
from gradebook.rubrics.model.rubric import OVERALL, Criterion, Overall, Rubric
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit, connect_up_to_date, prepare_lake
from gradebook.tasks.lake.rows import Row, read_published_run, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.ratings.claim_ratings import CLAIM_RATINGS_SCHEMA, claims_to_rate, insert_claim_ratings
from gradebook.tasks.ratings.evaluation_file import PAGE_COLUMNS, RATING_SCHEMA
from gradebook.tasks.ratings.gold import Settled, settled_ratings, with_gold
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
from gradebook.tasks.ratings.step_ratings import GIVEN_STEPS_SCHEMA, insert_step_ratings
from gradebook.tasks.ratings.table import insert_ratings
from gradebook.tasks.rubric_store.questions import add_questions_of_run
from gradebook.tasks.system.own_process import call_here

BY_CODE = ("check", "schema", "function")  # methods whose criteria people need not rate
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

    own_count: number of the criteria that rows bring along, over all tasks. has_pairs: a sheet shows two outputs;
    baseline_run_id: the run of one of them, None if both are of the run. dataset: the run's files, beside which its
    images and sounds lie. is_training: gold is shown once a sheet is submitted; has_judge: the judge's level and
    reasons are on the sheet. call: calls what needs the lake, here or in a process of its own.
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
    call: Callable[..., Any] = call_here

    def answers(self, sheet: Sheet) -> tuple[Answer, ...]:
        """The output or outputs to rate, in the order in which the sheet's rater sees them."""
        texts = sheet.texts
        if not self.has_pairs:
            return (Answer(texts["output"], texts.get("audio")),)
        sides = (Answer(texts["text_a"], texts["audio_a"]), Answer(texts["text_b"], texts["audio_b"]))
        return sides if shown_first(self.run_id, sheet.rater, sheet.output_id) == "a" else sides[::-1]

    def criteria_of(self, sheet: Sheet) -> dict[str, Criterion | Overall]:
        """Criteria of the session, and those that the row of the sheet's output brings along, by id; the overall row
        last.
        """
        own = {each.id: each for each in map(read_case_criterion, sheet.texts.get("criteria", ()))}
        found = {name: each for name, each in self.criteria.items() if name != OVERALL} | own
        found |= {OVERALL: self.criteria[OVERALL]} if OVERALL in self.criteria else {}
        return pair_criteria(found) if self.has_pairs else found

    def store_marks(self) -> int:
        """Move new ratings to the lake in one transaction; returns their number. Interrupted anywhere, none is lost or
        stored twice.
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
    ratings = _ratings_table([each for each in single if _is_plain(each)], source)
    open_steps = [each for each in single if _is_step(each) and not _is_decision(each)]
    steps = _parts_table(open_steps, "label", source, GIVEN_STEPS_SCHEMA)
    claims = _parts_table([each for each in single if _is_claim(each)], "verdict", source, CLAIM_RATINGS_SCHEMA)
    decisions = {
        table: _decisions_table(
            [each for each in single if _is_decision(each) and _is_step(each) == of_steps], run_id, schema
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
    named = ((mark, mark["criterion_id"].partition(".")[0], mark["output_id"]) for mark in marks)
    return [
        {**mark, "question_digest": digests.get((name, output_id), digests.get((name, None)))}
        for mark, name, output_id in named
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
    """Open the session of a run and a queue, or go on with the one that is there.

    run: its id, or a function that finds it, called where `call` calls. criterion_ids: the criteria to rate; by default
    those that no code decides. has_pairs: compare two outputs of a case, of the run or of a baseline and the run. gold:
    a ratings file or a run whose settled outputs are mixed in; is_training: a rater is shown what is settled after
    rating such an output. next_ids, has_names: as for `choose_outputs`. has_judge: show what the judge said, in a
    session of its own, whose ratings say so. call: as of the session. Raises `InputError` for an unknown run or
    criterion, an empty queue, or if another process serves the session.
    """
    chosen = _Chosen(
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
    run_id, row, name, tasks = call(_find_tasks, lake, chosen)
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
            call=call,
        )
        session.store_marks()  # first: the new queue drops marks of outputs whose texts changed
        store.set_tasks(tasks)
        yield session
        session.store_marks()
    finally:
        store.close()


class _Chosen(NamedTuple):
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


def _find_tasks(lake: Lake, chosen: _Chosen) -> tuple[str, Row, str, tuple[Task, ...]]:
    """The run's id and row, the name of the queue and its tasks. Raises as `opened_session`."""
    run_id = chosen.run if isinstance(chosen.run, str) else chosen.run(lake)
    with connect_up_to_date(lake, is_pinned=True) as connection:
        row = read_published_run(connection, lake, run_id, query("published/run_with_rubric"))
        if row["body"] is None:
            raise LakeError(lake.name, f"no rubric {row['rubric_id']} {row['rubric_version']}", "the run's rubric")
        rubric = rubric_from_body(row["body"])
        own = _own_criteria(connection, run_id, rubric, chosen.criterion_ids)
        criteria = _criteria_to_rate(rubric, chosen.criterion_ids)
        if not own and not any(name != OVERALL for name in criteria):
            expected = "a criterion that people can judge better than code"
            raise InputError(
                rubric.id, "only criteria that code decides", expected, "--criterion names one all the same"
            )
        if chosen.has_pairs:
            if chosen.baseline_run_id is not None:
                read_published_run(connection, lake, chosen.baseline_run_id, query("published/run_with_rubric"))
                own |= _own_criteria(connection, chosen.baseline_run_id, rubric, chosen.criterion_ids)
            name = f"pairs.{chosen.baseline_run_id or run_id}"
            tasks = choose_pairs(connection, run_id, chosen.baseline_run_id, chosen.most)
        else:
            queue, next_ids = chosen.queue, chosen.next_ids
            outputs = choose_outputs(
                connection,
                run_id,
                queue,
                chosen.most,
                next_ids,
                has_names=chosen.has_names,
                criterion_ids={*criteria, *(name for of_output in own.values() for name in of_output)},
                made_ids={*scales_of_rubric(rubric).counts.values()},
            )
            name, tasks = queue.value, _with_claims(connection, run_id, criteria, _tasks(connection, outputs))
            if chosen.has_judge:
                name, tasks = f"{name}.{JUDGE_SHOWN}", _with_judge(connection, run_id, tasks)
        if chosen.gold is not None:
            settled = settled_ratings(connection, lake, run_id, rubric, chosen.gold)
            tasks = with_gold(tasks, _gold_tasks(connection, settled, criteria, own), run_id)
        tasks = _with_own(tasks, own, has_others=any(name != OVERALL for name in criteria) or chosen.has_pairs)
    prepare_lake(lake)
    return run_id, row, name, tasks


def _tasks(connection: duckdb.DuckDBPyConnection, chosen: Sequence[QueuedOutput]) -> tuple[Task, ...]:
    """Outputs to rate, with the texts that a rater sees; without those that the lake no longer has."""
    connection.register("chosen_outputs", pa.table({"output_id": [each.output_id for each in chosen]}))
    texts = {each.pop("output_id"): each for each in map(dict, read_rows(connection, query("ratings/queue_texts")))}
    for each in texts.values():
        for name in ("audio", "steps"):  # sheets of an earlier gradebook lack them, and changed texts are rated again
            if each[name] is None:
                del each[name]
    agreed = _agreed_steps(connection, chosen)
    return tuple(
        Task(
            each.output_id,
            each.selection,
            each.inclusion_rate,
            {**texts[each.output_id], "opinions": each.opinions, **agreed.get(each.output_id, {})},
        )
        for each in chosen
        if each.output_id in texts
    )


def _with_claims(
    connection: duckdb.DuckDBPyConnection,
    run_id: str,
    criteria: Mapping[str, Criterion | Overall],
    tasks: Sequence[Task],
) -> tuple[Task, ...]:
    """Tasks with the claims that the run found in their texts, of the criteria to rate."""
    found = claims_to_rate(connection, run_id, {task.output_id: task.texts for task in tasks})
    of_task = (
        (task, {name: each for name, each in found.get(task.output_id, {}).items() if name in criteria})
        for task in tasks
    )
    return tuple(replace(task, texts={**task.texts, "claims": claims}) if claims else task for task, claims in of_task)


def _with_judge(connection: duckdb.DuckDBPyConnection, run_id: str, tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Tasks with what the judge said of them, by criterion, and a selection that says so."""
    connection.register("chosen_outputs", pa.table({"output_id": [task.output_id for task in tasks]}))
    said: dict[str, dict[str, Row]] = {}
    for row in map(dict, read_rows(connection, query("ratings/judged_levels"), run_id=run_id)):
        said.setdefault(row.pop("output_id"), {})[row.pop("criterion_id")] = row
    return tuple(
        replace(
            task,
            selection=JUDGE_SHOWN,
            inclusion_rate=None,
            texts={**task.texts, "judged": said.get(task.output_id, {})},
        )
        for task in tasks
    )


def _agreed_steps(
    connection: duckdb.DuckDBPyConnection, chosen: Sequence[QueuedOutput]
) -> dict[str, dict[str, dict[str, list[Any]]]]:
    """By output, `agreed`: marks of the steps that a lead need not decide, by criterion, as `StepMark`; only where
    other steps are in dispute.
    """
    disputed = {each.output_id: each.opinions for each in chosen if any("." in name for name in each.opinions)}
    if not disputed:
        return {}
    connection.register("chosen_outputs", pa.table({"output_id": list(disputed)}))
    found: dict[str, dict[str, dict[str, list[Any]]]] = {}
    for row in read_rows(connection, query("ratings/agreed_steps")):
        output_id, criterion_id, step = row["output_id"], row["criterion_id"], row["step_index"]
        is_open = step_name(criterion_id, step) in disputed[output_id]
        if not is_open and row["label"] is not None:
            of_output = found.setdefault(output_id, {"agreed": {}})["agreed"]
            named = (row[name] for name in ("label", "score", "error_type", "error_subtype", "severity", "rationale"))
            of_output.setdefault(criterion_id, []).append([str(step), *named])
    return found


def _gold_tasks(
    connection: duckdb.DuckDBPyConnection,
    settled: Settled,
    criteria: Mapping[str, Criterion | Overall],
    own: Mapping[str, Mapping[str, str]],
) -> list[Task]:
    """The outputs on which something is settled about a criterion of the sheet."""
    known = {
        output: {name: each for name, each in of.items() if name in criteria or name in own.get(output, {})}
        for output, of in settled.items()
    }
    tasks = _tasks(connection, [QueuedOutput(output, GOLD, None) for output, of in known.items() if of])
    return [replace(each, texts={**each.texts, "gold": known[each.output_id]}) for each in tasks]


def _criteria_to_rate(rubric: Rubric, criterion_ids: Sequence[str]) -> dict[str, Criterion | Overall]:
    """Criteria of the rubric that are named or, by default, that no code decides; and its overall row."""
    chosen = criterion_ids or [each.id for each in rubric.criteria if each.method.type not in BY_CODE]
    found: dict[str, Criterion | Overall] = {each.id: each for each in rubric.criteria if each.id in chosen}
    return found | ({OVERALL: rubric.overall} if rubric.overall else {})


def _own_criteria(
    connection: duckdb.DuckDBPyConnection, run_id: str, rubric: Rubric, criterion_ids: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Criteria that rows of the run bring along, as JSON, by output and id.

    Those that are named or, by default, that no code decides. Raises `InputError` for a name that neither the rubric
    nor a row has.
    """
    rows = read_rows(connection, query("ratings/own_criteria"), run_id=run_id)
    known = dict.fromkeys([*(each.id for each in rubric.criteria), *(row["criterion_id"] for row in rows)])
    if unknown := next((each for each in criterion_ids if each not in known), None):
        raise InputError("--criterion", f"{unknown!r}", f"one of {', '.join([*known][:MOST_NAMES])}")
    own: dict[str, dict[str, str]] = {}
    for row in rows:
        if row["criterion_id"] in criterion_ids if criterion_ids else row["method"] not in BY_CODE:
            own.setdefault(row["output_id"], {})[row["criterion_id"]] = row["body"]
    return own


def _with_own(tasks: Sequence[Task], own: Mapping[str, Mapping[str, str]], *, has_others: bool) -> tuple[Task, ...]:
    """Tasks with the criteria that their rows bring along: of a pair those of both outputs with one text.

    has_others: whether the rubric has criteria to rate; if not, tasks without own ones are left out.
    """
    found = []
    for task in tasks:
        first, *others = (own.get(output_id, {}) for output_id in task.output_id.split())
        of_task = [body for name, body in first.items() if all(each.get(name) == body for each in others)]
        if of_task:
            found.append(replace(task, texts={**task.texts, "criteria": of_task}))
        elif has_others:
            found.append(task)
    return tuple(found)


def _is_decision(mark: Row) -> bool:
    return bool(mark["selection"] == Queue.adjudicate.value)


def _is_step(mark: Row) -> bool:
    return "step" in orjson.loads(mark["details"])


def _is_claim(mark: Row) -> bool:
    return "claim" in orjson.loads(mark["details"])


def _is_plain(mark: Row) -> bool:
    """Whether it is the rating of a criterion."""
    return not (_is_decision(mark) or _is_step(mark) or _is_claim(mark))


def _parts_table(marks: list[Row], level: str, source: str, schema: pa.Schema) -> pa.Table:
    """Marks of steps or claims as the schema. level: its column for the chosen level's id."""
    rows = []
    for mark in marks:
        named = {level: mark["level_id"], "rationale": mark["notes"], "source": source}
        rated_at = datetime.fromisoformat(mark["rated_at"])
        rows.append({**mark, **named, **orjson.loads(mark["details"]), "rated_at": rated_at})
    return pa.Table.from_pylist(rows, schema=schema)


def _ratings_table(marks: list[Row], source: str) -> pa.Table:
    """Marks as `RATING_SCHEMA` with `PAGE_COLUMNS` and `line`."""
    rows = []
    for line, mark in enumerate(marks):
        gold = orjson.loads(mark["gold"] or "{}").get(mark["criterion_id"], {})
        evidence = orjson.loads(mark["details"]).get("evidence")
        known = {"source": source, "line": line, "gold_score": gold.get("score"), "evidence": evidence}
        rows.append({**mark, **known, "rated_at": datetime.fromisoformat(mark["rated_at"])})
    return pa.Table.from_pylist(rows, schema=_RATINGS_SCHEMA)


def _decisions_table(marks: list[Row], run_id: str, schema: pa.Schema) -> pa.Table:
    rows = []
    for mark in marks:
        details = orjson.loads(mark["details"])
        details.pop("evidence", None)
        needs_update = details.pop("needs_rubric_update", None) is not None
        named = {"run_id": run_id, "adjudicator": mark["rater"], "needs_rubric_update": needs_update}
        if "step" in details:
            named |= {"step_index": int(details["step"]), "label": mark["level_id"]}
        rows.append({**mark, **details, **named, "decided_at": datetime.fromisoformat(mark["rated_at"])})
    return pa.Table.from_pylist(rows, schema=schema)
