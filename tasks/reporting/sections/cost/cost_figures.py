"""Cost charts: by criterion, in dollars if judgments were paid for, and by stage, in CPU time."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from gradebook.rubrics.model.counts import counted
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.ledger.spending import CostSum
from gradebook.tasks.reporting.drawing.charts import distinct_labels, draw
from gradebook.tasks.reporting.drawing.figures import Figure, table_of
from gradebook.tasks.system.number_format import known_words, price_words, rate_words, seconds_words
from gradebook.tasks.workspace.timings import stage_words

MOST_BARS = 12
BILLED, SAVED, SPENT = "billed", "saved by the ledger", "CPU time"
_NAMES = {"(own)": "criteria of rows", "(feedback)": "written feedback"}


@dataclass(frozen=True, slots=True)
class _Bar:
    """One bar. parts: the amount of each part, None if unknown; words: the total as text."""

    name: str
    parts: tuple[float | None, ...]
    words: str

    @property
    def amount(self) -> float:
        return sum(part or 0.0 for part in self.parts)


def criterion_figure(rows: Sequence[Row], sums: Sequence[CostSum]) -> Figure | None:
    """Dollars by criterion if there are any, else CPU time by criterion; None if the run scored no criterion."""
    if any(each.billed_usd or each.saved_usd for each in sums):
        return _dollars(sums)
    seconds = _seconds((_criterion_name(row), row["cpu_s"]) for row in rows if row["criterion_id"] is not None)
    why = "no price is known" if any(each.billed_usd is None for each in sums) else "nothing was billed"
    replaced = f"; shown in place of dollars because {why}"
    return _times("cost-criteria", "CPU time by criterion", "Criterion", seconds, replaced)


def stage_figure(rows: Sequence[Row]) -> Figure | None:
    """CPU time by stage; None if there was none."""
    seconds = _seconds((stage_words(row["stage"]), row["cpu_s"]) for row in rows)
    return _times("cost-stages", "CPU time by stage", "Stage", seconds)


def _criterion_name(row: Row) -> str:
    name: str = row["criterion_id"]
    return _NAMES.get(name, name)


def _dollars(sums: Sequence[CostSum]) -> Figure:
    """Billed and saved dollars by criterion, most expensive first."""
    bars = sorted(map(_paid_bar, sums), key=lambda bar: (-bar.amount, bar.name))
    table = table_of(
        "Cost by criterion",
        ("Criterion",),
        ("Billed", "Saved", "Judgments", "Replayed", "Tokens in", "Cached", "Tokens out"),
        map(_sum_cells, sums),
    )
    reading = _most_expensive(bars, sum(map(_unknown_count, sums)))
    svg = _drawn(_fitting(bars, price_words), (BILLED, SAVED), "dollars")
    return Figure("cost-criteria", "Cost by criterion", reading, svg, table)


def _most_expensive(bars: Sequence[_Bar], unknown_count: int) -> str:
    """Sentence with the cost and share of the first bar; without a share if a price is unknown."""
    total, first = sum(bar.amount for bar in bars), bars[0]
    whole = f"{counted(len(bars), 'criterion', 'criteria')} cost, billed and saved"
    if unknown_count:
        known = f"at least {price_words(total)} that {whole}"
        return f"The highest known cost is that of {first.name}: {first.words}, of {known}."
    share = rate_words(first.amount / total)
    return f"The highest cost is that of {first.name}: {first.words}, {share} of the {price_words(total)} that {whole}."


def _unknown_count(costs: CostSum) -> int:
    return costs.unpriced_count + costs.uncounted_count + costs.unpriced_replayed_count


def _paid_bar(costs: CostSum) -> _Bar:
    known = [usd for usd in (costs.billed_usd, costs.saved_usd) if usd is not None]
    words = known_words(sum(known) if known else None, _unknown_count(costs))
    name = costs.part or ""
    return _Bar(_NAMES.get(name, name), (costs.billed_usd, costs.saved_usd), words)


def _sum_cells(costs: CostSum) -> tuple[str, ...]:
    counts = (costs.judgment_count, costs.replayed_count)
    tokens = (costs.prompt_tokens, costs.cached_tokens, costs.completion_tokens)
    return (
        _NAMES.get(costs.part or "", costs.part or ""),
        known_words(costs.billed_usd, costs.unpriced_count + costs.uncounted_count),
        known_words(costs.saved_usd, costs.unpriced_replayed_count),
        *(f"{count:,}" for count in (*counts, *tokens)),
    )


def _seconds(found: Iterable[tuple[str, float]]) -> dict[str, float]:
    """CPU seconds by name, largest first."""
    sums: dict[str, float] = {}
    for name, cpu_s in found:
        sums[name] = sums.get(name, 0.0) + cpu_s
    return dict(sorted(sums.items(), key=lambda pair: (-pair[1], pair[0])))


def _times(name: str, title: str, heading: str, seconds: dict[str, float], why: str = "") -> Figure | None:
    """Draw CPU time by name; None if there was none. why: end of the sentence."""
    total_s = sum(seconds.values())
    if not total_s:
        return None
    bars = [_Bar(each, (cpu_s,), seconds_words(cpu_s)) for each, cpu_s in seconds.items()]
    first = bars[0]
    share = rate_words(first.amount / total_s)
    reading = f"Most CPU time went to {first.name}: {first.words}, {share} of {seconds_words(total_s)}{why}."
    shares = ((bar.name, f"{bar.amount:,.3f}", rate_words(bar.amount / total_s)) for bar in bars)
    table = table_of(title, (heading,), ("CPU, s", "Share"), shares)
    svg = _drawn(_fitting(bars, seconds_words), (SPENT,), "CPU seconds")
    return Figure(name, title, reading, svg, table)


def _fitting(bars: Sequence[_Bar], words: Callable[[float], str]) -> list[_Bar]:
    """The first bars; those beyond `MOST_BARS` are combined into one."""
    if len(bars) <= MOST_BARS:
        return list(bars)
    shown, others = bars[: MOST_BARS - 1], bars[MOST_BARS - 1 :]
    parts = tuple(sum(part or 0.0 for part in amounts) for amounts in zip(*(bar.parts for bar in others), strict=True))
    return [*shown, _Bar(counted(len(others), "other"), parts, words(sum(parts)))]


def _drawn(bars: Sequence[_Bar], parts: tuple[str, ...], unit: str) -> Markup:
    names = distinct_labels(bar.name for bar in bars)
    rows = [row for name, bar in zip(names, bars, strict=True) for row in _rows(name, bar, parts)]
    totals = [{"name": name, "amount": bar.amount, "words": bar.words} for name, bar in zip(names, bars, strict=True)]
    return draw(
        "costs",
        {"rows": rows, "totals": totals},
        names=names,
        parts=list(parts),
        legend={"title": None, "symbolType": "square"} if len(parts) > 1 else None,
        unit=unit,
        height=24 * len(bars),
        most=max(bar.amount for bar in bars) or 1.0,
    )


def _rows(name: str, bar: _Bar, parts: tuple[str, ...]) -> Iterator[Row]:
    for order, (part, amount) in enumerate(zip(parts, bar.parts, strict=True)):
        tip = f"{name}: {bar.words}" if len(parts) == 1 else f"{name}: {price_words(amount)} {part}"
        yield {"name": name, "part": part, "amount": amount or 0.0, "order": order, "tip": tip}
