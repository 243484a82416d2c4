"""What came out of a published run, read back from the lake: the same numbers that SQL gives."""

from dataclasses import dataclass
from typing import Any

import duckdb

from rubrics.errors import InputError
from tasks.lake import Lake, connect

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A published run. scores, criteria, costs: rows of run_scores, criterion_scores, stage_costs; unmet: in words."""

    run: Row
    scores: tuple[Row, ...]
    criteria: tuple[Row, ...]
    costs: tuple[Row, ...]
    quality: tuple[Row, ...]
    has_requirement: bool
    unmet: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """Whether the outputs do what the rubric requires, in a sentence."""
        if not self.has_requirement:
            return "The rubric has no gate and no pass_threshold: there was nothing to meet."
        return "Not every gate and threshold is met." if self.unmet else "Every gate and threshold is met."

    @property
    def run_id(self) -> str:
        """The run's id."""
        return str(self.run["run_id"])

    @property
    def is_met(self) -> bool:
        """Whether every gate and the rubric's threshold hold for every model."""
        return not self.unmet

    def as_json(self) -> Row:
        """One JSON object: what `--json` prints."""
        return {
            **self.run,
            "is_met": self.is_met,
            "verdict": self.verdict,
            "unmet": list(self.unmet),
            "scores": list(self.scores),
            "criteria": list(self.criteria),
            "costs": list(self.costs),
            "quality": list(self.quality),
        }


def summarise(lake: Lake, run_id: str) -> RunSummary:
    """Read a published run's summary. Raises `InputError` where there is none of that id."""
    with connect(lake, read_only=True) as connection:
        found = _rows(connection, "select * from runs where run_id = ?", run_id)
        if not found:
            raise InputError(
                f"run: found no {run_id!r} in {lake.name}, expected one of those that `gradebook runs` lists"
            )
        if found[0]["status"] != "published":
            raise InputError(f"run: {run_id} is {found[0]['status']} ({found[0]['reason']}), expected a published run")
        scores = _rows(
            connection,
            "select * exclude (run_id) from run_scores where run_id = ? order by mean desc nulls last, model",
            run_id,
        )
        criteria = _rows(connection, _CRITERIA, run_id)
        costs = _rows(connection, _COSTS, run_id)
        quality = _rows(connection, _QUALITY, run_id)
        (asked,) = _rows(connection, _THRESHOLD, run_id)
    has_requirement = asked["pass_threshold"] is not None or asked["has_other_requirement"]
    unmet = _unmet(scores, asked["pass_threshold"])
    return RunSummary(found[0], scores, criteria, costs, quality, has_requirement, unmet)


def published_version(lake: Lake, run_id: str) -> int | None:
    """The version that published the run; None while it is not."""
    with connect(lake, read_only=True) as connection:
        rows = _rows(connection, "select version from runs where run_id = ? and status = 'published'", run_id)
    return int(rows[0]["version"]) if rows else None


def latest_run(lake: Lake) -> str:
    """The id of the run published last. Raises `InputError` where none was."""
    with connect(lake, read_only=True) as connection:
        rows = _rows(connection, "select run_id from runs where status = 'published' order by version desc limit 1")
    if not rows:
        raise InputError(f"run: found no published run in {lake.name}, expected one; `gradebook evaluate` makes it")
    return str(rows[0]["run_id"])


def list_runs(lake: Lake) -> tuple[Row, ...]:
    """All runs, the newest first."""
    with connect(lake, read_only=True) as connection:
        return _rows(
            connection,
            "select run_id, status, created_at, rubric_id, rubric_version, judge, dataset, output_count, version, "
            "cost_usd, reason from runs order by created_at desc, run_id",
        )


_CRITERIA = """
select cs.* exclude (run_id)
from criterion_scores as cs
    inner join runs as r on cs.run_id = r.run_id
    inner join rubrics as ru on r.rubric_id = ru.rubric_id and r.rubric_version = ru.rubric_version
where cs.run_id = ?
order by list_position((ru.body::json ->> '$.criteria[*].id'), cs.criterion_id), cs.model, cs.checkpoint
"""
_COSTS = """
select * exclude (run_id) from stage_costs where run_id = ?
order by list_position(['ingest', 'plan', 'score', 'quality', 'aggregate', 'publish'], stage), criterion_id nulls first
"""
_QUALITY = """
select stage, count(*) as expectation_count, count(*) filter (not is_met) as unmet_count,
    list(subject || ': ' || expectation order by subject, expectation) filter (not is_met) as unmet
from quality_results where run_id = ? group by stage order by stage
"""
_THRESHOLD = """
select
    (ru.body::json ->> 'pass_threshold')::double as pass_threshold,
    coalesce((ru.body::json ->> 'require_thresholds')::boolean, false) or exists (
        from criteria as c where c.rubric_id = r.rubric_id and c.rubric_version = r.rubric_version and c.is_gate
    ) as has_other_requirement
from runs as r inner join rubrics as ru on r.rubric_id = ru.rubric_id and r.rubric_version = ru.rubric_version
where r.run_id = ?
"""


def _unmet(scores: tuple[Row, ...], pass_threshold: float | None) -> tuple[str, ...]:
    """Every gate and threshold that does not hold, in words; a mean that can't be known does not hold."""
    sentences = []
    for row in scores:
        model = row["model"] if row["checkpoint"] is None else f"{row['model']} @ {row['checkpoint']}"
        if row["gate_failure_rate"]:
            failed_count = round(row["gate_failure_rate"] * row["output_count"])
            sentences.append(f"{model}: {failed_count} of {row['output_count']} outputs fail a gate")
        if pass_threshold is None:
            continue
        if row["mean"] is None:
            sentences.append(f"{model}: no output has a score, expected a mean of at least {pass_threshold:g}")
        elif row["mean"] < pass_threshold - 1e-9:
            sentences.append(f"{model}: mean {row['mean']:.3f}, expected at least {pass_threshold:g}")
    return tuple(sentences)


def _rows(connection: duckdb.DuckDBPyConnection, query: str, *parameters: object) -> tuple[Row, ...]:
    found = connection.execute(query, list(parameters))
    names = [column[0] for column in found.description or ()]
    return tuple(dict(zip(names, row, strict=True)) for row in found.fetchall())
