"""Anchors: outputs of a published run, frozen with their scores, that a judge is asked about again and again."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

import duckdb
import numpy as np

from gradebook.rubrics.files.versions import rubric_from_body
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.text.plain_words import unknown_word
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit, connect_up_to_date
from gradebook.tasks.lake.rows import Row, insert_rows, read_published_run, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.rewards.outputs import ReadOutput, stored_outputs
from gradebook.tasks.rubric_store.questions import add_questions_of_run
from gradebook.tasks.workspace.folder import RUN_ID

STRATA = ("criterion", "level", "model", "checkpoint")
SEED = 20_26
MOST_OUTPUTS = 100_000
_BODY = "select body from rubrics where rubric_id = ? and rubric_version = ?"


@dataclass(frozen=True, slots=True)
class AnchorChoice:
    """Anchors to take from a run.

    n: outputs. name: of the set; None: the rubric's id. is_rated: only outputs that people rated. strata: columns of
    `STRATA`, whose combinations get equal numbers of outputs as far as there are enough.
    """

    run_id: str
    n: int
    name: str | None = None
    is_rated: bool = False
    strata: tuple[str, ...] = ()


# Defaults of a night, see `WatchRequest`.
PER_NIGHT, REFERENCE, ALPHA = 40, 3, 0.05


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """A night of the sentinel.

    per_night: anchored outputs to ask. reference: replies on each output at the start of an epoch. alpha: maximum
    probability of a false alarm, ever, over all criteria of an epoch.
    """

    anchor_set: str
    judge: str
    night: date
    per_night: int = PER_NIGHT
    reference: int = REFERENCE
    alpha: float = ALPHA
    budget_usd: float | None = None


def make_anchors(lake: Lake, choice: AnchorChoice, now: datetime) -> Row:
    """Store a set of anchors, which never changes; returns its row of `list_anchors`. Raises `InputError`."""
    _refuse_choice(choice)
    with connect_up_to_date(lake) as connection:
        run = read_published_run(connection, lake, choice.run_id)
        name = choice.name or run["rubric_id"]
        candidates = _candidates(connection, run, choice)
    output_ids = set(choose_outputs(candidates, choice.strata, choice.n, np.random.default_rng(SEED)))
    set_columns = {"anchor_set": name, "created_at": now} | {
        column: run[column] for column in ("run_id", "rubric_id", "rubric_version", "judge")
    }
    rows = [_anchor(row) | set_columns for row in candidates if row["output_id"] in output_ids]

    def body(transaction: duckdb.DuckDBPyConnection, _version: int) -> None:
        if transaction.execute("select 1 from anchors where anchor_set = ? limit 1", [name]).fetchall():
            raise InputError("--name", f"the anchor set {name!r}, which exists", "a new name")
        insert_rows(transaction, "anchors", rows)

    commit(lake, f"anchors {name} of run {choice.run_id}", body)
    return next(row for row in list_anchors(lake) if row["anchor_set"] == name)


def list_anchors(lake: Lake) -> tuple[Row, ...]:
    """Anchor sets of a lake, newest first. Raises `LakeError` if there is no lake."""
    with connect_up_to_date(lake) as connection:
        return read_rows(connection, query("operations/anchor_sets"))


def read_anchors(connection: duckdb.DuckDBPyConnection, name: str) -> tuple[Row, ...]:
    """Anchors of a set, one row per output and criterion. Raises `InputError` for an unknown name."""
    rows = read_rows(connection, "select * from anchors where anchor_set = ? order by output_id, criterion_id", name)
    if not rows:
        names = [
            name_in_lake for (name_in_lake,) in connection.execute("select distinct anchor_set from anchors").fetchall()
        ]
        expected = unknown_word(name, names) if names else "one that `gradebook judge anchors make` made"
        raise InputError("anchors", f"no anchor set {name!r} in the lake", expected)
    return rows


def intact_outputs(connection: duckdb.DuckDBPyConnection, anchors: Sequence[Row]) -> list[ReadOutput]:
    """Anchored outputs whose content still has their id, in the order of their ids."""
    return stored_outputs(connection, sorted({row["output_id"] for row in anchors}))


def choose_outputs(
    candidates: Sequence[Row], strata: Sequence[str], n: int, rng: np.random.Generator
) -> tuple[str, ...]:
    """Choose up to n outputs at random, in turn from each stratum. candidates: rows with output_id and the strata."""
    by_stratum: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for row in candidates:
        by_stratum[tuple(row[column] for column in strata)].add(row["output_id"])
    queues = [list(rng.permutation(sorted(of_one))) for _, of_one in sorted(by_stratum.items())]
    chosen_ids: dict[str, None] = {}
    while len(chosen_ids) < n and any(queues):
        for queue in queues:
            while queue and queue[-1] in chosen_ids:
                queue.pop()
            if queue and len(chosen_ids) < n:
                chosen_ids[str(queue.pop())] = None
    return tuple(chosen_ids)


def _refuse_choice(choice: AnchorChoice) -> None:
    if not 1 <= choice.n <= MOST_OUTPUTS:
        raise InputError("--n", str(choice.n), f"a number of outputs, 1 to {MOST_OUTPUTS:,}")
    if choice.name is not None and not RUN_ID.fullmatch(choice.name):
        raise InputError("--name", repr(choice.name), "up to 80 letters, digits, - and _")
    if unknown := [column for column in choice.strata if column not in STRATA]:
        raise InputError("--stratify", repr(unknown[0]), f"one or several of {', '.join(STRATA)}, with commas between")


def _candidates(connection: duckdb.DuckDBPyConnection, run: Row, choice: AnchorChoice) -> tuple[Row, ...]:
    bodies = read_rows(connection, _BODY, run["rubric_id"], run["rubric_version"])
    judged = [criterion.id for row in bodies for criterion in rubric_from_body(row["body"]).judged_criteria]
    add_questions_of_run(connection, choice.run_id, "ratings")
    select = query("operations/anchor_candidates")
    rows = read_rows(connection, select, run_id=choice.run_id, criteria=judged) if judged else ()
    rated = {row["output_id"] for row in rows if row["people_count"]}
    eligible = tuple(row for row in rows if not choice.is_rated or row["output_id"] in rated)
    if not eligible:
        kind = "that people rated and the judge scored" if choice.is_rated else "that a judge scored"
        raise InputError("run", f"{choice.run_id}, without an output {kind}", "a run with some")
    return eligible


def _anchor(row: Row) -> Row:
    renamed = {"criterion_id": row["criterion"], "level_id": row["level"] or None}
    return renamed | {name: row[name] for name in ("output_id", "score", "people_score", "people_count")}
