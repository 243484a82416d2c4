"""Section "Agents": errors of steps by type, severity and place, and what a solved task costs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
from markupsafe import Markup

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.statistics.intervals import Interval
from gradebook.rubrics.statistics.jackknife import Jackknife, Scale, jackknife_parts
from gradebook.rubrics.text.tables import Table, table_of
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.lake.sql import query
from gradebook.tasks.reporting.drawing.charts import distinct_labels, draw
from gradebook.tasks.reporting.drawing.figures import Figure
from gradebook.tasks.reporting.source.report_source import Group, ReportSource
from gradebook.tasks.rubric_store.questions import add_questions_of_run
from gradebook.tasks.system.number_format import interval_words, price_words, rate_words, share_words

MOST_DRAWN = 12  # kinds of error, the most frequent ones
MOST_PLACES = 12  # columns of steps
WHO = {"judge": "the judge", "people": "people"}
Kind = tuple[str, str | None]


def error_figure(source: str, rows: Sequence[Row]) -> Figure | None:
    """Errors by kind (rows) and step (columns), with severities in the table. source: who marked them."""
    if not rows:
        return None
    counts, severities = Counter[Kind](), Counter[tuple[Kind, str]]()
    for row in rows:
        kind = (row["error_type"], row["error_subtype"])
        counts[kind] += row["mark_count"]
        severities[kind, row["severity"] or "none"] += row["mark_count"]
    kinds = [kind for kind, _ in counts.most_common()]
    names = list(dict.fromkeys(row["severity"] or "none" for row in rows))
    table = table_of(
        f"Errors of steps, marked by {WHO[source]}",
        ("Type", "Subtype"),
        ("Steps", *(f"Severity {name}" for name in names), "First step", "Last step"),
        (_cells(rows, kind, [counts[kind], *(severities[kind, name] for name in names)]) for kind in kinds),
    )
    total, first = counts.total(), kinds[0]
    reading = (
        f"{WHO[source].capitalize()} marked {counted(total, 'step')} below the best label; most often "
        f"{' / '.join(word for word in first if word)}: {counts[first]:,} ({rate_words(counts[first] / total)})."
    )
    return Figure(f"agent-errors-{source}", f"Errors of steps, by {WHO[source]}", reading, _drawn(rows, kinds), table)


def _cells(rows: Sequence[Row], kind: Kind, numbers: Sequence[int]) -> tuple[str, ...]:
    steps = [row["step_index"] for row in rows if (row["error_type"], row["error_subtype"]) == kind]
    return (kind[0], kind[1] or "", *(f"{number:,}" for number in (*numbers, min(steps), max(steps))))


def _drawn(rows: Sequence[Row], kinds: Sequence[Kind]) -> Markup:
    shown = kinds[:MOST_DRAWN]
    labels = dict(zip(shown, distinct_labels(" / ".join(word for word in kind if word) for kind in shown), strict=True))
    width = -(-(max(row["step_index"] for row in rows) + 1) // MOST_PLACES)
    cells = Counter[tuple[Kind, int]]()
    for row in rows:
        cells[(row["error_type"], row["error_subtype"]), row["step_index"] // width] += row["mark_count"]
    places = {place: _place(place, width) for place in range(max(place for _, place in cells) + 1)}
    marks = [
        {"kind": labels[kind], "place": words, "count": cells[kind, place]}
        | {"tip": f"{labels[kind]}, step {words}: {counted(cells[kind, place], 'mark')}"}
        for kind in shown
        for place, words in places.items()
    ]
    return draw(
        "error_map",
        {"rows": marks},
        kinds=list(labels.values()),
        places=list(places.values()),
        most=max(1, *cells.values()),
        height=24 * len(shown),
    )


def _place(place: int, width: int) -> str:
    return str(place) if width == 1 else f"{place * width}–{place * width + width - 1}"


FEW = "too few cases, or one has all that are solved"


@dataclass(frozen=True, slots=True)
class SolvedCost:
    """Runs of one model's agent with a known cost and outcome.

    cost_usd: dollars spent on all runs for each that passed; None if none passed. interval: 95%, over cases; unknown
    with a reason.
    """

    n: int
    solved_count: int
    mean_usd: float
    cost_usd: float | None
    interval: Interval
    reason: str | None


def solved_cost(costs: Floats, is_solved: Floats, cases: Sequence[str]) -> SolvedCost:
    """Cost of a solved task: sum of all costs over the number of solved tasks. costs, is_solved, cases: (run,)."""
    solved = float(is_solved.sum())
    if not solved:
        unknown = Interval(float("nan"), float("nan"))
        return SolvedCost(costs.size, 0, float(costs.mean()), None, unknown, "no task is solved")
    value = float(costs.sum() / solved)
    parts = jackknife_parts(np.arange(costs.size), np.array(cases))
    with np.errstate(divide="ignore", invalid="ignore"):
        without = (parts.weights @ costs) / (parts.weights @ is_solved)
    without[~np.isfinite(without)] = np.nan  # one case has all solved tasks
    interval, reason = Jackknife(value, parts, without, Scale.RATIO).interval()
    why = FEW if reason else None
    return SolvedCost(costs.size, int(solved), float(costs.mean()), value, interval, why)


def solved_figure(source: ReportSource, runs: Sequence[Row]) -> Figure | None:
    """Pass rate by mean cost, a mark a model, with the cost of a solved task; None without costs or outcomes."""
    known = [row for row in runs if row["cost_usd"] is not None and row["is_passed"] is not None]
    if not known:
        return None
    found: list[tuple[Group, SolvedCost]] = []
    for group in source.groups:
        own = [row for row in known if source.group_of(row) == group]
        if own:
            costs, outcomes = ([float(row[name]) for row in own] for name in ("cost_usd", "is_passed"))
            found.append((group, solved_cost(np.array(costs), np.array(outcomes), [row["shared"] for row in own])))
    drawn = [(group, each) for group, each in found if group in source.drawn_groups]
    rows = [
        {"name": group.label, "cost": each.mean_usd, "rate": each.solved_count / each.n, "tip": _tip(group, each)}
        for group, each in drawn
    ]
    svg = draw(
        "solved_costs",
        {"rows": rows},
        names=[group.label for group, _ in drawn],
        colours=[group.colour for group, _ in drawn],
        most=1.2 * max(each.mean_usd for _, each in found) or 1.0,
    )
    left_out = len(runs) - len(known)
    title = "What a solved task costs"
    return Figure("agent-costs", title, _solved_sentence(found, left_out), svg, _table(title, found))


def _tip(group: Group, cost: SolvedCost) -> str:
    solved = share_words(cost.solved_count, cost.n)
    return f"{group.label}: {solved} solved, {price_words(cost.mean_usd)} a task"


def _table(title: str, found: Sequence[tuple[Group, SolvedCost]]) -> Table:
    numbers = ("Tasks", "Solved", "Cost a task", "Cost a solved task", "95% interval")
    cells = (
        (
            group.name,
            f"{each.n:,}",
            f"{each.solved_count:,} ({share_words(each.solved_count, each.n)})",
            price_words(each.mean_usd),
            "–" if each.cost_usd is None else price_words(each.cost_usd),
            _interval_words(each),
        )
        for group, each in found
    )
    return table_of(title, ("Model",), numbers, cells)


def _interval_words(cost: SolvedCost) -> str:
    if cost.reason or not np.isfinite([cost.interval.low, cost.interval.high]).all():
        return cost.reason or "–"
    return interval_words(cost.interval.low, cost.interval.high, price_words)


def _solved_sentence(found: Sequence[tuple[Group, SolvedCost]], left_out: int) -> str:
    """Sentence on the lowest cost of a solved task; intervals that overlap allow no ranking."""
    more = f" {counted(left_out, 'run')} without a cost or an outcome left out." if left_out else ""
    solved = [(group, each) for group, each in found if each.cost_usd is not None]
    if not solved:
        return f"No task is solved.{more}"
    group, each = min(solved, key=lambda pair: pair[1].cost_usd or 0.0)
    words = f"A solved task costs least with {group.label}: {price_words(each.cost_usd)} ({_interval_words(each)})"
    if len(solved) == 1:
        words = f"A solved task costs {price_words(each.cost_usd)} with {group.label} ({_interval_words(each)})"
    return f"{words}: what all its runs cost, over the tasks that passed.{more}"


def unsolved_words(runs: Sequence[Row]) -> str:
    """Reason why there is no cost of a solved task."""
    if all(row["cost_usd"] is None for row in runs):
        return "No step names its cost, so what a solved task costs is unknown."
    return "The rubric requires nothing (no gate, no pass_threshold), so no task counts as solved."


SOURCES = ("judge", "people")


@dataclass(frozen=True, slots=True)
class AgentContents:
    """Contents of the section. note: why there is no cost of a solved task; None if there is one."""

    figures: tuple[Figure, ...]
    note: str | None


def read_agents(source: ReportSource) -> AgentContents | None:
    """Read the section; None if no output of the run has steps, or nothing is known of their errors and costs."""
    runs = source.rows(query("reporting/agent_runs"), run_id=source.run_id)
    if not runs:
        return None
    errors = _errors(source)
    maps = [error_figure(name, [row for row in errors if row["source"] == name]) for name in SOURCES]
    solved = solved_figure(source, runs)
    figures = tuple(figure for figure in (*maps, solved) if figure is not None)
    return AgentContents(figures, unsolved_words(runs) if solved is None else None) if figures else None


def _errors(source: ReportSource) -> tuple[Row, ...]:
    try:
        add_questions_of_run(source.connection, source.run_id, "step_ratings", "step_adjudications")
        return source.rows(query("reporting/step_errors"), run_id=source.run_id)
    except duckdb.CatalogException:  # a lake before there were marks of steps
        return ()
