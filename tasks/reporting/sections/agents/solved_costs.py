"""Cost against success: what the agents of each model spend for a task that passes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.statistics.intervals import Interval
from gradebook.rubrics.statistics.jackknife import Jackknife, Scale, jackknife_parts
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.reporting.drawing.charts import draw
from gradebook.tasks.reporting.drawing.figures import Figure, Table, table_of
from gradebook.tasks.reporting.source.report_source import Group, ReportSource
from gradebook.tasks.system.number_format import interval_words, price_words, share_words

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
    return Figure("agent-costs", title, _reading(found, left_out), svg, _table(title, found))


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


def _reading(found: Sequence[tuple[Group, SolvedCost]], left_out: int) -> str:
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
