"""Outcomes in use (clicks, refunds, reopened tickets): imported by output, case or day, correlated with a run's scores,
and weights fitted to them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime
from itertools import groupby
from math import isnan
from typing import Any

import duckdb
import numpy as np

from gradebook.rubrics.files.dump import rubric_values, values_yaml
from gradebook.rubrics.files.load import parse_rubric
from gradebook.rubrics.files.versions import next_version, required_step, rubric_from_body
from gradebook.rubrics.importers.ratings.sheets import Misfit, name_text
from gradebook.rubrics.model.errors import MOST_FAULTS, Fault, InputError, OutputsError
from gradebook.rubrics.model.rubric import Rubric, WeightTree, effective_weights
from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.intervals import Interval
from gradebook.rubrics.statistics.outcomes import Correlation, SuggestedWeights, pearson, spearman, suggest_weights
from gradebook.rubrics.text.wording import difference_interval_words, rate_words, signed_words, with_interval
from gradebook.tasks.datasets.discovery import dataset_files
from gradebook.tasks.datasets.discovery import read_rows as read_file_rows
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit, connect_up_to_date, upgrade_lake
from gradebook.tasks.lake.rows import Row, insert_rows, make_table, model_name, read_published_run, read_rows
from gradebook.tasks.lake.sql import query

MOST_UNITS = 5_000  # outputs of a correlation: of more outputs, a random sample is used
SEED = 20_261_126
OVERALL = ""
WEIGHT_DIGITS = 4  # decimals of a suggested weight
LIMITS = (
    "Correlations over the cases of this run show no cause, and weights fitted to an outcome hold for these cases "
    "alone: criteria that hardly vary can't show what they are worth, noise of the judge weakens all, and outcomes may "
    "have causes that no criterion asks about. Cases that were drawn by stratum count as one each."
)
_GROUPS = "select model, checkpoint from run_scores where run_id = ? order by model, checkpoint"


@dataclass(frozen=True, slots=True)
class Followed:
    """Correlation of one score with an outcome. criterion_id: empty for the overall score.

    Intervals: 95%; None: unknown. weight: in the current rubric, as a share; suggested: by `suggest_weights`, with its
    interval.
    """

    criterion_id: str
    n: int
    case_count: int
    pearson: float | None
    pearson_low: float | None
    pearson_high: float | None
    spearman: float | None
    spearman_low: float | None
    spearman_high: float | None
    weight: float | None = None
    suggested: float | None = None
    suggested_low: float | None = None
    suggested_high: float | None = None


@dataclass(frozen=True, slots=True)
class OutcomeFollowing:
    """One outcome and the scores of one model. rows: the overall score, then criteria in the rubric's order.

    r2_fit, r2_now: share of the outcome's variance explained by the suggested weights and by the overall score.
    """

    name: str
    grain: str
    model: str
    is_higher_better: bool
    rows: tuple[Followed, ...]
    r2_fit: float | None
    r2_now: float | None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def measure_outcomes(lake: Lake, run_id: str) -> tuple[OutcomeFollowing, ...]:
    """Outcomes of a published run's outputs, cases and days, by model. Raises `InputError` for an unknown run."""
    with connect_up_to_date(lake) as connection:
        run = read_published_run(connection, lake, run_id, query("agreement/rubric_of_run"))
        return outcomes_of(connection, run_id, rubric_from_body(run["body"]))


def outcomes_of(connection: duckdb.DuckDBPyConnection, run_id: str, rubric: Rubric) -> tuple[OutcomeFollowing, ...]:
    """Outcomes of a published run, as `measure_outcomes`, over an open connection to the lake."""
    if not connection.execute("select 1 from outcomes limit 1").fetchall():
        return ()
    cells = read_rows(connection, query("agreement/outcome_cells"), run_id=run_id)
    followings = list(_by_group(cells, rubric))
    for group in read_rows(connection, _GROUPS, run_id):
        days = read_rows(connection, query("agreement/outcome_days"), run_id=run_id, **group)
        followings += _by_group([row | group | {"grain": "day", "output_id": row["shared"]} for row in days], rubric)
    return tuple(followings)


def rubric_with_weights(rubric: Rubric, following: Sequence[OutcomeFollowing], today: date) -> Rubric:
    """Next version of a rubric, with the suggested weights that explain their outcome best.

    A criterion that never varied has no suggestion and keeps its share. today: of the review. Raises
    `InputError` if there is no suggestion, or the rubric has penalties, whose sign no outcome decides.
    """
    candidates = [outcome for outcome in following if any(row.suggested for row in outcome.rows)]
    if not candidates:
        raise InputError("outcomes", "no suggested weights", "more cases with every weighted criterion scored")
    weights = {name: weight for name, weight in effective_weights(rubric).items() if weight}
    if any(weight < 0 for weight in weights.values()):
        raise InputError(rubric.id, "penalties", "weights of 0 or more: change the file by hand")
    best = max(candidates, key=lambda outcome: outcome.r2_fit or 0.0)
    suggested = {row.criterion_id: row.suggested for row in best.rows if row.suggested is not None}
    total = sum(weights.values())
    fixed = {name: weight / total for name, weight in weights.items() if name not in suggested}
    free_share = 1 - sum(fixed.values())
    shares = fixed | {name: share * free_share for name, share in suggested.items() if name in weights}
    values = rubric_values(rubric)
    for criterion in values["criteria"]:
        if criterion["id"] in shares:
            criterion["weight"] = round(shares[criterion["id"]], WEIGHT_DIGITS)
    tree = WeightTree.of(rubric) if rubric.categories else None
    for category in values.get("categories", ()):
        members = [criterion for criterion in rubric.criteria if tree and tree.share(criterion, category["id"])]
        share_sum = sum(shares.get(criterion.id, 0.0) for criterion in members)
        if members:
            category["weight"] = round(share_sum, WEIGHT_DIGITS)
    values.pop("weight_sum", None)
    values |= {"reviewed": today.isoformat(), "version": next_version(rubric.version, "minor")}
    draft = parse_rubric(values_yaml(values), rubric.id)
    step = required_step(rubric, draft).step
    return (
        draft
        if step in ("minor", "patch", "none")
        else draft.model_copy(update={"version": next_version(rubric.version, step)})
    )


def propose_weights(lake: Lake, run_id: str, today: date) -> Rubric:
    """Next version of a published run's rubric, with the weights that its outcomes suggest."""
    with connect_up_to_date(lake) as connection:
        run = read_published_run(connection, lake, run_id, query("agreement/rubric_of_run"))
        rubric = rubric_from_body(run["body"])
        return rubric_with_weights(rubric, outcomes_of(connection, run_id, rubric), today)


def _by_group(cells: Sequence[Row], rubric: Rubric) -> Iterator[OutcomeFollowing]:
    def key(row: Row) -> tuple[str, str, str, str]:
        return row["name"], row["grain"], row["model"], row["checkpoint"] or ""

    for _, group in groupby(sorted(cells, key=key), key):
        rows = [*group]
        units = [
            *dict.fromkeys(row["output_id"] for row in rows)
        ]  # an output without an overall score may have criterion scores
        if len(units) > MOST_UNITS:
            sampled = np.random.default_rng(SEED).choice(len(units), MOST_UNITS, replace=False)
            units = [units[position] for position in np.sort(sampled).tolist()]
        yield _follow(rows, {unit: position for position, unit in enumerate(units)}, rubric)


def _follow(rows: Sequence[Row], positions: dict[str, int], rubric: Rubric) -> OutcomeFollowing:
    names = [OVERALL, *(criterion.id for criterion in rubric.criteria)]
    scores = np.full((len(positions), len(names)), np.nan)
    values, shared = np.full(len(positions), np.nan), np.empty(len(positions), dtype=object)
    columns = {name: position for position, name in enumerate(names)}
    for row in rows:
        position, column = positions.get(row["output_id"]), columns.get(row["criterion_id"])
        if position is not None and column is not None:
            scores[position, column], values[position], shared[position] = row["score"], row["value"], row["shared"]
    cases = np.unique(shared.astype(str), return_inverse=True)[1].astype(np.int64)
    first_row = rows[0]
    weights = {name: weight for name, weight in effective_weights(rubric).items() if weight}
    fit = _suggest(scores, values if first_row["is_higher_better"] else -values, cases, columns, weights)
    total = sum(abs(weight) for weight in weights.values())
    followed = []
    for name in names:
        is_paired = ~np.isnan(scores[:, columns[name]]) & ~np.isnan(values)
        if not is_paired.any():
            continue
        paired = scores[is_paired, columns[name]], values[is_paired], cases[is_paired]
        counts = int(is_paired.sum()), int(np.unique(cases[is_paired]).size)
        suggested: tuple[float | None, ...] = ()
        if name in weights:
            suggested = (abs(weights[name]) / total, *_suggested(fit, [*weights].index(name)))
        followed.append(
            Followed(
                name,
                *counts,
                *_with_bounds(pearson(*paired)),
                *_with_bounds(spearman(*paired)),
                *suggested,
            )
        )
    return OutcomeFollowing(
        first_row["name"],
        first_row["grain"],
        model_name(first_row),
        bool(first_row["is_higher_better"]),
        tuple(followed),
        None if fit is None else _none_if_nan(fit.r2_fit),
        None if fit is None else _none_if_nan(fit.r2_now),
    )


def _suggest(
    scores: Floats, values: Floats, cases: np.ndarray[Any, Any], columns: dict[str, int], weights: dict[str, float]
) -> SuggestedWeights | None:
    """Suggested weights of the weighted criteria, over outputs with an overall score and a score on each criterion."""
    weighted_columns = [columns[name] for name in weights]
    signs = np.sign([*weights.values()])  # the absence of a penalty is good
    is_complete = ~np.isnan(scores[:, [0, *weighted_columns]]).any(axis=1) & ~np.isnan(values)
    if not weighted_columns or not is_complete.any():
        return None
    return suggest_weights(
        scores[is_complete][:, weighted_columns] * signs,
        scores[is_complete, 0],
        values[is_complete],
        cases[is_complete],
    )


def _suggested(fit: SuggestedWeights | None, index: int) -> tuple[float | None, ...]:
    if fit is None:
        return None, None, None
    interval = fit.intervals[index]
    return _none_if_nan(float(fit.shares[index])), _none_if_nan(interval.low), _none_if_nan(interval.high)


def _with_bounds(correlation: Correlation) -> tuple[float | None, float | None, float | None]:
    interval: Interval = correlation.interval
    return _none_if_nan(correlation.value), _none_if_nan(interval.low), _none_if_nan(interval.high)


def _none_if_nan(value: float) -> float | None:
    return None if isnan(value) else float(value)


def cells_of(row: Followed) -> tuple[str, ...]:
    """Cells of a row: score, Spearman with its interval, Pearson, weight, suggested weight with its interval, cases."""
    suggested = "–"
    if row.suggested is not None:
        suggested = with_interval(row.suggested, row.suggested_low, row.suggested_high, rate_words)
    return (
        row.criterion_id or "overall",
        signed_words(row.spearman),
        difference_interval_words(row.spearman_low, row.spearman_high),
        signed_words(row.pearson),
        rate_words(row.weight),
        suggested,
        f"{row.case_count:,}",
    )


GRAINS = {"output": "output_id", "case": "case_id", "day": "day"}
MOST_NAME = 100  # characters of an outcome's name
_KEY = ("name", "grain", "output_id", "case_id", "day", "model")
_COUNTS = "select count(*) filter (not is_changed) as new_count, count(*) filter (is_changed) as changed_count "
_COUNTS += "from fresh_outcomes"
_FORGET = "delete from outcomes using fresh_outcomes as fresh where fresh.is_changed and "
_FORGET += " and ".join(f"fresh.{name} is not distinct from outcomes.{name}" for name in _KEY)
_INSERT = "insert into outcomes by name select * exclude (is_changed) from fresh_outcomes"


@dataclass(frozen=True, slots=True)
class OutcomeFile:
    """File of outcomes. name: for rows without a name. is_higher_better: whether a higher value is better."""

    files: str
    name: str | None = None
    is_higher_better: bool = True
    column_map: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OutcomeImport:
    """Result of an import. changed_count: rows whose earlier value was replaced.

    unmatched_count: rows that fit no output.
    """

    row_count: int
    new_count: int
    changed_count: int
    unmatched_count: int
    names: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "row_count": self.row_count,
            "new_count": self.new_count,
            "changed_count": self.changed_count,
            "unmatched_count": self.unmatched_count,
            "names": list(self.names),
        }


def import_outcomes(lake: Lake, file: OutcomeFile, now: datetime, *, is_dry: bool = False) -> OutcomeImport:
    """Add the outcomes of a file in one transaction; an outcome that the lake has with the same value adds nothing.

    A row of the same name, output, case or day, and model replaces the earlier value. is_dry: write nothing. Raises
    `OutputsError` with all faults of the file; then nothing is written.
    """
    upgrade_lake(lake)
    rows = [row | {"imported_at": now} for row in read_outcomes(file)]
    counts: Row = {}

    def body(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        connection.execute("create or replace temp table given_outcomes as from outcomes limit 0")
        insert_rows(connection, "given_outcomes", rows)
        make_table(connection, "agreement/fresh_outcomes")
        counts.update(read_rows(connection, _COUNTS)[0])
        counts.update(read_rows(connection, query("agreement/unmatched_outcomes"))[0])
        if not is_dry and counts["new_count"] + counts["changed_count"]:
            connection.execute(_FORGET)
            connection.execute(_INSERT)

    if is_dry:
        with connect_up_to_date(lake) as connection:
            body(connection, 0)
    else:
        commit(lake, f"import outcomes of {file.files}", body)
    return OutcomeImport(len(rows), **counts, names=tuple(dict.fromkeys(str(row["name"]) for row in rows)))


def list_outcomes(lake: Lake) -> Sequence[Row]:
    """One row per name and grain of the lake's outcomes."""
    with connect_up_to_date(lake) as connection:
        return read_rows(connection, query("agreement/outcome_summary"))


def read_outcomes(file: OutcomeFile) -> list[Row]:
    """Rows of the table `outcomes`, without the time; equal rows once. Raises `OutputsError`."""
    outcomes: dict[tuple[Any, ...], Row] = {}
    faults: list[Fault] = []
    columns = {name: file.column_map.get(name, name) for name in (*GRAINS.values(), "name", "value", "model")}
    for raw in read_file_rows(dataset_files(file.files), {}, (columns["value"],)):
        row = raw.content if isinstance(raw.content, str) else _outcome_row(raw.content, columns, file)
        if not isinstance(row, str):
            row |= {"source": raw.source, "line": raw.line, "is_higher_better": file.is_higher_better}
            earlier = outcomes.setdefault(_key(row), row)
            if earlier["value"] == row["value"]:
                continue
            row = f"found the value {row['value']:g} after {earlier['value']:g} in line {earlier['line']}, expected one"
        faults.append(Fault(raw.source, raw.line, row))
        if len(faults) == MOST_FAULTS:
            break
    if faults:
        raise OutputsError(tuple(faults))
    if not outcomes:
        raise InputError(file.files, "no outcome", "rows with a name, a value and an output_id, a case_id or a day")
    return [*outcomes.values()]


def _outcome_row(content: Mapping[str, Any], columns: Mapping[str, str], file: OutcomeFile) -> Row | str:
    """Row of the table, or the fault of the content."""
    cells = {name: content.get(column) for name, column in columns.items()}
    cells = {name: None if value == "" else value for name, value in cells.items()}
    grains = [grain for grain, column in GRAINS.items() if cells[column] is not None]
    # The narrowest grain counts: an output belongs to a case, and a case may have a day.
    if not grains:
        return "found no output_id, case_id or day, expected one of them"
    grain = grains[0]
    name = cells["name"] if cells["name"] is not None else file.name
    if not isinstance(name, str) or not 0 < len(name.strip()) <= MOST_NAME or "\0" in name:
        return f"found the name {name!r:.60}, expected a text of up to {MOST_NAME} characters, or --name"
    value = _number(cells["value"])
    if value is None:
        return f"found the value {cells['value']!r:.60}, expected a number"
    unit = cells[GRAINS[grain]]
    day = _date(unit) if grain == "day" else None
    if grain == "day" and day is None:
        return f"found the day {unit!r:.60}, expected a date such as 2026-11-22"
    row: Row = {"name": name.strip(), "grain": grain, "output_id": None, "case_id": None, "day": day, "value": value}
    try:
        row["model"] = name_text("model", cells["model"])
        return row if grain == "day" else row | {GRAINS[grain]: name_text(GRAINS[grain], unit)}
    except Misfit as misfit:
        return str(misfit)


def _number(value: Any) -> float | None:
    """Number in a cell; a truth value counts as 0 or 1; None for anything else."""
    truth_values = {"true": 1.0, "false": 0.0}
    try:
        number = (
            truth_values[value.casefold()]
            if isinstance(value, str) and value.casefold() in truth_values
            else float(value)
        )
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _date(value: Any) -> date | None:
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        return None


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in _KEY)
