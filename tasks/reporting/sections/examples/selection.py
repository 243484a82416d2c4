"""Selection of the outputs that the page shows in full, with reasons and partners."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from gradebook.rubrics.statistics.rules import CRITERION
from gradebook.tasks.comparing.run_comparison import RunComparison
from gradebook.tasks.lake.rows import Row, make_table
from gradebook.tasks.lake.sql import query
from gradebook.tasks.reporting.source.report_source import ReportSource

MOST_OF_A_KIND = 10
MOST_EXAMPLES = 80
# In the order of the page. `sample` is used only if no output has another kind.
KINDS = ("fell", "gate", "worst", "disputed", "apart", "slice", "unscored", "rose", "best", "sample")
_SAMPLES = """
select 'sample' as kind, output_id, row_number() over (order by case_id, model, checkpoint, output_id) as place
from output_scores where run_id = ? qualify place <= ?
"""
_TABLES = ("example_pairs", "example_disputes")


@dataclass(frozen=True, slots=True)
class Partner:
    """Output paired with a picked one. change: score of the picked output minus this one's; None if not comparable."""

    output_id: str
    run_id: str
    change: float | None


@dataclass(frozen=True, slots=True)
class Pick:
    """Output to show. kinds: reasons, in the order of `KINDS`."""

    output_id: str
    kinds: tuple[str, ...]
    partner: Partner | None


def pick_outputs(source: ReportSource) -> tuple[Pick, ...]:
    """Pick the outputs to show: the first of each kind, then the second of each kind, ..."""
    with _pair_tables(source):
        rows = _read_picks(source)
        places = _first_places(rows)
        chosen = sorted(places, key=lambda output_id: (*places[output_id], output_id))[:MOST_EXAMPLES]
        partners = _read_partners(source, chosen)
    kinds: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda row: KINDS.index(row["kind"])):
        kinds.setdefault(row["output_id"], []).append(row["kind"])
    return tuple(Pick(output_id, tuple(kinds[output_id]), partners.get(output_id)) for output_id in chosen)


def is_within_run(comparison: RunComparison | None, run_id: str) -> bool:
    """Whether the comparison is between two models of the run."""
    return comparison is not None and comparison.baseline_run_id == run_id


@contextmanager
def _pair_tables(source: ReportSource) -> Iterator[None]:
    """Provide temporary tables of paired outputs and of disputed outputs during the block."""
    comparison = source.comparison
    baseline = source.run_id if comparison is None else comparison.baseline_run_id
    pairs = {"run_id": source.run_id, "baseline_run_id": baseline, "sides": _sides(comparison)}
    try:
        make_table(source.connection, "reporting/example_pairs", **pairs)
        make_table(source.connection, "reporting/example_disputes", run_id=source.run_id)
        yield
    finally:
        for table in _TABLES:
            source.connection.execute(f"drop table if exists temp.{table}")


def _sides(comparison: RunComparison | None) -> list[Row]:
    """Both sides of each pair of models: A from the baseline, B from the run."""
    figures = () if comparison is None else comparison.figures
    names = ("model", "checkpoint", "baseline_model", "baseline_checkpoint")
    pairs = dict.fromkeys(tuple(row[name] for name in names) for row in figures)
    sides: list[Row] = []
    for pair, (model, checkpoint, baseline_model, baseline_checkpoint) in enumerate(pairs):
        sides.append({"pair": pair, "side": "b", "model": model, "checkpoint": checkpoint})
        sides.append({"pair": pair, "side": "a", "model": baseline_model, "checkpoint": baseline_checkpoint})
    return sides


def _read_picks(source: ReportSource) -> list[Row]:
    """One row per output and kind, without changes if the rubrics differ: their scores are not comparable."""
    rows = list(source.rows(query("reporting/example_picks"), run_id=source.run_id, most_count=MOST_OF_A_KIND))
    if source.comparison is not None and source.comparison.banner:
        rows = [row for row in rows if row["kind"] not in {"fell", "rose"}]
    found = {row["kind"] for row in rows}
    if not found & {"fell", "rose", "disputed"}:
        rows += source.rows(query("reporting/example_gaps"), run_id=source.run_id, most_count=MOST_OF_A_KIND)
    return rows or list(source.rows(_SAMPLES, source.run_id, MOST_OF_A_KIND))


def _first_places(rows: Sequence[Row]) -> dict[str, tuple[int, int]]:
    """Best place of each output within a kind, with the position of that kind."""
    places: dict[str, tuple[int, int]] = {}
    for row in rows:
        place = (row["place"], KINDS.index(row["kind"]))
        places[row["output_id"]] = min(place, places.get(row["output_id"], place))
    return places


def _read_partners(source: ReportSource, chosen: Sequence[str]) -> Mapping[str, Partner]:
    """Partner by output: from the other side of the comparison, else another model's answer to the same case."""
    comparison = source.comparison
    found = source.rows(query("reporting/example_partners"), run_id=source.run_id, output_ids=list(chosen))
    partners = {row["output_id"]: Partner(row["partner_id"], source.run_id, None) for row in found}
    if comparison is None:
        return partners
    pairs = source.rows("from example_pairs where list_contains($1, output_id) order by is_b", list(chosen))
    for row in pairs:
        change = None if comparison.banner else row["change"]
        partners[row["output_id"]] = Partner(row["partner_id"], comparison.baseline_run_id, change)
    return partners


def compared_criteria(comparison: RunComparison) -> frozenset[str] | None:
    """Criteria with the same text on both sides; None if all have."""
    if comparison.banner is None:
        return None
    rows = (row for pair in comparison.models for row in pair.rows)
    return frozenset(row.scope_id for row in rows if row.scope == CRITERION and row.is_compared)
