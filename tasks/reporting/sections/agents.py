"""Section "Agents": errors of steps by type, severity and place, and what a solved task costs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
from markupsafe import Markup

from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.intervals import Interval
from gradebook.rubrics.statistics.resampling import Jackknife, Scale, jackknife_parts
from gradebook.rubrics.text.tables import Table, table_of
from gradebook.rubrics.text.wording import counted, interval_words, price_words, rate_words, share_words
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.lake.sql import query
from gradebook.tasks.reporting.charts import Figure, distinct_labels, draw
from gradebook.tasks.reporting.report_source import Group, ReportSource
from gradebook.tasks.rubric_store.questions import add_questions_of_run

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
    sentence = (
        f"{WHO[source].capitalize()} marked {counted(total, 'step')} below the best label; most often "
        f"{' / '.join(word for word in first if word)}: {counts[first]:,} ({rate_words(counts[first] / total)})."
    )
    return Figure(f"agent-errors-{source}", f"Errors of steps, by {WHO[source]}", sentence, _drawn(rows, kinds), table)


def _cells(rows: Sequence[Row], kind: Kind, numbers: Sequence[int]) -> tuple[str, ...]:
    steps = [row["step_index"] for row in rows if (row["error_type"], row["error_subtype"]) == kind]
    return (kind[0], kind[1] or "", *(f"{number:,}" for number in (*numbers, min(steps), max(steps))))


def _drawn(rows: Sequence[Row], kinds: Sequence[Kind]) -> Markup:
    drawn_kinds = kinds[:MOST_DRAWN]
    labels = dict(
        zip(
            drawn_kinds, distinct_labels(" / ".join(word for word in kind if word) for kind in drawn_kinds), strict=True
        )
    )
    width = -(-(max(row["step_index"] for row in rows) + 1) // MOST_PLACES)
    cells = Counter[tuple[Kind, int]]()
    for row in rows:
        cells[(row["error_type"], row["error_subtype"]), row["step_index"] // width] += row["mark_count"]
    columns = {column: _step_range(column, width) for column in range(max(column for _, column in cells) + 1)}
    marks = [
        {"kind": labels[kind], "place": steps, "count": cells[kind, column]}
        | {"tip": f"{labels[kind]}, step {steps}: {counted(cells[kind, column], 'mark')}"}
        for kind in drawn_kinds
        for column, steps in columns.items()
    ]
    return draw(
        "error_map",
        {"rows": marks},
        kinds=list(labels.values()),
        places=list(columns.values()),
        most=max(1, *cells.values()),
        height=24 * len(drawn_kinds),
    )


def _step_range(column: int, width: int) -> str:
    return str(column) if width == 1 else f"{column * width}–{column * width + width - 1}"


FEW = "too few cases, or one has all that are solved"
UNEQUAL = "a few tasks make most of the cost, so the interval would be too narrow"
MOST_LOG_SD = 1.3  # of the costs: with 1 the interval holds in 94%, with 2 in 80 to 86%


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
    why = FEW if reason else UNEQUAL if _log_sd(costs) > MOST_LOG_SD else None
    return SolvedCost(costs.size, int(solved), float(costs.mean()), value, interval, why)


def _log_sd(costs: Floats) -> float:
    """Standard deviation of the logarithms of the costs above 0; 0 with fewer than two."""
    logs = np.log(costs[costs > 0.0])
    return float(logs.std(ddof=1)) if logs.size >= 2 else 0.0


def solved_figure(source: ReportSource, runs: Sequence[Row]) -> Figure | None:
    """Pass rate by mean cost, a mark a model, with the cost of a solved task; None without costs or outcomes."""
    complete = [row for row in runs if row["cost_usd"] is not None and row["is_passed"] is not None]
    if not complete:
        return None
    group_costs: list[tuple[Group, SolvedCost]] = []
    for group in source.groups:
        of_group = [row for row in complete if source.group_of(row) == group]
        if of_group:
            costs, outcomes = ([float(row[name]) for row in of_group] for name in ("cost_usd", "is_passed"))
            group_costs.append(
                (group, solved_cost(np.array(costs), np.array(outcomes), [row["shared"] for row in of_group]))
            )
    drawn = [(group, cost) for group, cost in group_costs if group in source.drawn_groups]
    rows = [
        {"name": group.label, "cost": cost.mean_usd, "rate": cost.solved_count / cost.n, "tip": _tip(group, cost)}
        for group, cost in drawn
    ]
    svg = draw(
        "solved_costs",
        {"rows": rows},
        names=[group.label for group, _ in drawn],
        colours=[group.colour for group, _ in drawn],
        most=1.2 * max(cost.mean_usd for _, cost in group_costs) or 1.0,
    )
    left_out = len(runs) - len(complete)
    title = "What a solved task costs"
    return Figure("agent-costs", title, _solved_sentence(group_costs, left_out), svg, _table(title, group_costs))


def _tip(group: Group, cost: SolvedCost) -> str:
    solved = share_words(cost.solved_count, cost.n)
    return f"{group.label}: {solved} solved, {price_words(cost.mean_usd)} a task"


def _table(title: str, group_costs: Sequence[tuple[Group, SolvedCost]]) -> Table:
    numbers = ("Tasks", "Solved", "Cost a task", "Cost a solved task", "95% interval")
    cells = (
        (
            group.name,
            f"{cost.n:,}",
            f"{cost.solved_count:,} ({share_words(cost.solved_count, cost.n)})",
            price_words(cost.mean_usd),
            "–" if cost.cost_usd is None else price_words(cost.cost_usd),
            _interval_words(cost),
        )
        for group, cost in group_costs
    )
    return table_of(title, ("Model",), numbers, cells)


def _interval_words(cost: SolvedCost) -> str:
    if cost.reason or not np.isfinite([cost.interval.low, cost.interval.high]).all():
        return cost.reason or "–"
    return interval_words(cost.interval.low, cost.interval.high, price_words)


def _solved_sentence(group_costs: Sequence[tuple[Group, SolvedCost]], left_out: int) -> str:
    """Sentence on the lowest cost of a solved task; intervals that overlap allow no ranking."""
    more = f" {counted(left_out, 'run')} without a cost or an outcome left out." if left_out else ""
    solved = [(group, cost) for group, cost in group_costs if cost.cost_usd is not None]
    if not solved:
        return f"No task is solved.{more}"
    group, cost = min(solved, key=lambda pair: pair[1].cost_usd or 0.0)
    sentence = f"A solved task costs least with {group.label}: {price_words(cost.cost_usd)} ({_interval_words(cost)})"
    if len(solved) == 1:
        sentence = f"A solved task costs {price_words(cost.cost_usd)} with {group.label} ({_interval_words(cost)})"
    return f"{sentence}: what all its runs cost, over the tasks that passed.{more}"


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
