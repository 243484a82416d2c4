"""Published runs read back: tables, questions in SQL, comparisons, reports."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from gradebook.flows.api.wording import in_parameters
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.comparing.compare import Comparison as ComparedRuns
from gradebook.tasks.comparing.compare import ComparisonOptions, compare_runs
from gradebook.tasks.comparing.gate import gate_rule
from gradebook.tasks.comparing.verdict import RunVerdict, comparison_verdict
from gradebook.tasks.lake import address
from gradebook.tasks.lake.data_files import CHANGED, changed_newest_files
from gradebook.tasks.lake.errors import RESTORE
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.lake.user_queries import run_query
from gradebook.tasks.lake.versions import find_lake_at
from gradebook.tasks.published.runs import RunTable, list_runs, named_run, read_table
from gradebook.tasks.published.summary import RunSummary, summarise
from gradebook.tasks.reporting.page import run_report
from gradebook.tasks.system.files import write_bytes
from gradebook.tasks.workspace.folder import usual_lake

if TYPE_CHECKING:
    import pandas as pd

FORMS = {".html": "html", ".md": "md", ".png": "png"}
MOST_SHOWN = 20  # rows of a table in a notebook


@dataclass(frozen=True, slots=True, repr=False)
class Difference:
    """Comparison of two runs: B - A, case by case. found: the figures."""

    found: ComparedRuns

    @property
    def verdict(self) -> RunVerdict:
        """The comparison in one sentence, with the facts behind it."""
        return comparison_verdict(self.found)

    @property
    def is_failed(self) -> bool:
        """Whether the gate of `require` and `fail_if` failed, or can't be decided; False without one."""
        return self.found.gate is not None and self.found.gate.is_failed

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as `gradebook compare --json` prints them."""
        return {"verdict": self.verdict.as_json()} | self.found.as_json()

    def __repr__(self) -> str:
        return f"<Difference: {self}>"

    def __str__(self) -> str:
        return self.verdict.sentence

    def _repr_html_(self) -> str:
        facts = [[fact.topic, fact.sentence] for fact in self.verdict.facts]
        return _html(self.verdict.sentence, ["topic", "fact"], facts)


class Run:
    """A published run. Tables are Arrow tables: `to_pandas` and `to_pylist` turn them into others."""

    def __init__(self, lake: address.Lake, run_id: str, summary: RunSummary | None = None) -> None:
        self._lake, self.run_id = lake, run_id
        if summary is not None:
            self.__dict__["_summary"] = summary

    @cached_property
    def _summary(self) -> RunSummary:
        return summarise(self._lake, self.run_id)

    @property
    def summary(self) -> dict[str, Any]:
        """Plain values as `gradebook evaluate --json` prints them: verdict, scores, criteria, requirements, costs."""
        plain: dict[str, Any] = orjson.loads(orjson.dumps(self._summary.as_json(), default=str))
        return plain

    @property
    def is_met(self) -> bool:
        """Whether every requirement that counts is met, for every model."""
        return self._summary.is_met

    @property
    def scores(self) -> pa.Table:
        """Rows of `run_scores`: one a model and checkpoint, the best first."""
        return read_table(self._lake, self.run_id, RunTable.scores)

    @property
    def criteria(self) -> pa.Table:
        """Rows of `criterion_scores`: one a model, checkpoint and criterion."""
        return read_table(self._lake, self.run_id, RunTable.criteria)

    @property
    def outputs(self) -> pa.Table:
        """Rows of `output_scores` with the prompt and the output: one an output."""
        return read_table(self._lake, self.run_id, RunTable.outputs)

    @property
    def verdicts(self) -> pa.Table:
        """Rows of `verdicts`: one an output and criterion, with the reason of each that is unscored."""
        return read_table(self._lake, self.run_id, RunTable.verdicts)

    def failed(self) -> pa.Table:
        """Rows of `outputs` that fail a gate or a threshold."""
        table = self.outputs
        keep = [is_passed is False for is_passed in table.column("is_passed").to_pylist()]
        return table.filter(pa.array(keep, pa.bool_()))

    def sql(self, statement: str) -> pa.Table:
        """Rows of one reading statement over all runs of the lake, as `gradebook sql`. Raises `QueryError`."""
        return run_query(self._lake, statement)

    @in_parameters
    def compare(self, other: "Run | str", fail_if: str | None = None, *, require: str | None = None) -> Difference:
        """Compare this run with an earlier one, its baseline: a run or its id. Raises `InputError`."""
        if isinstance(other, Run) and other._lake != self._lake:
            raise InputError("other", f"a run of {other._lake.name}", f"one of {self._lake.name}")
        name = other.run_id if isinstance(other, Run) else other
        options = ComparisonOptions(gate=gate_rule(fail_if, require))
        return Difference(compare_runs(self._lake, named_run(self._lake, name), self.run_id, options))

    @in_parameters
    def report(self, path: str | Path, against: str | None = None) -> Path:
        """Write the report: .html a page, .md Markdown, .png a picture. against: run to compare with."""
        target = Path(path)
        if target.suffix not in FORMS:
            raise InputError("path", repr(target.name), f"a file that ends in {', '.join(FORMS)}")
        write_bytes(target, run_report(self._lake, self._summary, FORMS[target.suffix], against))
        return target

    def to_arrow(self) -> pa.Table:
        """Rows of `outputs`, one an output, with a column for each criterion's score."""
        table, verdicts = self.outputs, self.verdicts
        rows = {output_id: row for row, output_id in enumerate(table.column("output_id").to_pylist())}
        columns: dict[str, list[float | None]] = {}
        triples = (verdicts.column(name).to_pylist() for name in ("output_id", "criterion_id", "score"))
        for output_id, criterion_id, score in zip(*triples, strict=True):
            columns.setdefault(criterion_id, [None] * table.num_rows)[rows[output_id]] = score
        for name, scores in columns.items():
            free = name if name not in table.column_names else f"criterion.{name}"
            table = table.append_column(free, pa.array(scores, pa.float64()))
        return table

    def to_pandas(self) -> "pd.DataFrame":
        """Data frame of pandas with the columns of `to_arrow`."""
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def __repr__(self) -> str:
        return f"<Run {self.run_id}: {self._summary.verdict.sentence}>"

    def _repr_html_(self) -> str:
        table = self.scores.select(["model", "checkpoint", "n", "mean", "ci_low", "ci_high", "pass_rate"])
        rows = [list(row.values()) for row in table.slice(0, MOST_SHOWN).to_pylist()]
        return _html(f"{self.run_id}: {self._summary.verdict.sentence}", table.column_names, rows)


class Lake:
    """A lake of published runs, read only."""

    def __init__(self, lake: address.Lake) -> None:
        self._lake = lake

    @property
    def runs(self) -> tuple[Row, ...]:
        """Rows of all runs, newest first, as `gradebook runs` lists them."""
        return list_runs(self._lake)

    @in_parameters
    def run(self, run_id: str | None = None) -> Run:
        """A published run; without an id, or `latest`, the latest one. Raises `InputError` if there is none."""
        latest_id = named_run(self._lake, run_id)
        return Run(self._lake, latest_id, summarise(self._lake, latest_id))

    def sql(self, statement: str) -> pa.Table:
        """Rows of one reading statement, as `gradebook sql`. Raises `QueryError`."""
        return run_query(self._lake, statement)

    @in_parameters
    def compare(self, run_a: str, run_b: str, fail_if: str | None = None, *, require: str | None = None) -> Difference:
        """Compare two runs, B - A, as `gradebook compare`. Raises `InputError`."""
        a, b = (named_run(self._lake, run) for run in (run_a, run_b))
        return Difference(compare_runs(self._lake, a, b, ComparisonOptions(gate=gate_rule(fail_if, require))))

    def __repr__(self) -> str:
        return f"<Lake {self._lake.name}>"

    def _repr_html_(self) -> str:
        names = ["run_id", "status", "rubric_id", "rubric_version", "judge", "output_count", "created_at"]
        return _html(self._lake.name, names, [[row[name] for name in names] for row in self.runs[:MOST_SHOWN]])


@in_parameters
def open_lake(uri: str | None = None, data: str | None = None, at: str | None = None) -> Lake:
    """Open a lake that exists. uri: by default GRADEBOOK_LAKE, else sqlite:lake/catalog.sqlite.

    data: location of its Parquet files. at: a version, a published run's id or a time, to read the tables as they were.

    >>> lake = open_lake("sqlite:night/catalog.sqlite")  # doctest: +SKIP
    >>> lake.run().scores.to_pylist()  # doctest: +SKIP

    Warns of its newest files whose content changed since they were published. Raises `LakeError` if there is none.
    """
    located = find_lake_at(lake_uri(uri), data, at)
    lake = Lake(located)
    _ = lake.runs  # raises for a missing lake, or a file that is no lake
    for path in changed_newest_files(located):
        warnings.warn(f"{path}: {CHANGED}, so figures may be wrong: {RESTORE}", stacklevel=3)  # 2: `in_parameters`
    return lake


def lake_uri(uri: str | None) -> str:
    """URI of a lake: the given one, else GRADEBOOK_LAKE, else the command's default."""
    return uri or usual_lake()


def _html(title: str, names: list[str], rows: list[list[Any]]) -> str:
    """HTML table for a notebook; every text is escaped, as outputs are untrusted."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{escape(_cell(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<p>{escape(title)}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
