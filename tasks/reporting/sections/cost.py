"""Section "Cost": by stage and criterion, with a forecast."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from gradebook.rubrics.text.tables import Table, table_of
from gradebook.rubrics.text.wording import (
    count_words,
    counted,
    price_words,
    rate_words,
    seconds_words,
    total_price_words,
)
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.lake.sql import query
from gradebook.tasks.ledger.spending import CostSum, Spending, sum_spending
from gradebook.tasks.planning.estimates import FEWEST_QUESTIONS, sum_spread
from gradebook.tasks.planning.plan import sum_costs
from gradebook.tasks.published.run_tables import cost_table
from gradebook.tasks.reporting.charts import Figure, cases_link, distinct_labels, draw
from gradebook.tasks.reporting.report_source import ReportSource
from gradebook.tasks.system.shell import shell_line
from gradebook.tasks.workspace.timings import stage_label

MOST_BARS = 12
BILLED, SAVED, SPENT = "billed", "saved by the ledger", "CPU time"
_NAMES = {"(own)": "criteria of rows", "(feedback)": "written feedback"}


@dataclass(frozen=True, slots=True)
class _Bar:
    """Bar of a chart. parts: the amount of each part, None if unknown; words: the total as text.

    criterion_id: of the cases that the bar leads to; "" for none.
    """

    name: str
    parts: tuple[float | None, ...]
    words: str
    criterion_id: str = ""

    @property
    def amount(self) -> float:
        return sum(part or 0.0 for part in self.parts)


def criterion_figure(rows: Sequence[Row], sums: Sequence[CostSum]) -> Figure | None:
    """Dollars by criterion if there are any, else CPU time by criterion; None if the run scored no criterion."""
    if any(cost.billed_usd or cost.saved_usd for cost in sums):
        return _dollars(sums)
    seconds = _seconds((_criterion_name(row), row["cpu_s"]) for row in rows if row["criterion_id"] is not None)
    why = "no price is known" if any(cost.billed_usd is None for cost in sums) else "nothing was billed"
    replaced = f"; shown in place of dollars because {why}"
    return _times("cost-criteria", "CPU time by criterion", "Criterion", seconds, replaced)


def stage_figure(rows: Sequence[Row]) -> Figure | None:
    """CPU time by stage; None if there was none."""
    seconds = _seconds((stage_label(row["stage"]), row["cpu_s"]) for row in rows)
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
    sentence = _most_expensive(bars, sum(map(_unknown_count, sums)))
    svg = _drawn(_fitting(bars, price_words), (BILLED, SAVED), "dollars")
    return Figure("cost-criteria", "Cost by criterion", sentence, svg, table)


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
    amounts = [usd for usd in (costs.billed_usd, costs.saved_usd) if usd is not None]
    text = total_price_words(sum(amounts) if amounts else None, _unknown_count(costs))
    name = costs.part or ""
    return _Bar(_NAMES.get(name, name), (costs.billed_usd, costs.saved_usd), text, "" if name in _NAMES else name)


def _sum_cells(costs: CostSum) -> tuple[str, ...]:
    counts = (costs.judgment_count, costs.replayed_count)
    tokens = (costs.prompt_tokens, costs.cached_tokens, costs.completion_tokens)
    return (
        _NAMES.get(costs.part or "", costs.part or ""),
        total_price_words(costs.billed_usd, costs.unpriced_count + costs.uncounted_count),
        total_price_words(costs.saved_usd, costs.unpriced_replayed_count),
        *(f"{count:,}" for count in (*counts, *tokens)),
    )


def _seconds(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    """CPU seconds by name, largest first."""
    sums: dict[str, float] = {}
    for name, cpu_s in pairs:
        sums[name] = sums.get(name, 0.0) + cpu_s
    return dict(sorted(sums.items(), key=lambda pair: (-pair[1], pair[0])))


def _times(name: str, title: str, heading: str, seconds: dict[str, float], why: str = "") -> Figure | None:
    """Draw CPU time by name; None if there was none. why: end of the sentence."""
    total_s = sum(seconds.values())
    if not total_s:
        return None
    linked = set() if heading != "Criterion" else seconds.keys() - _NAMES.values()
    bars = [
        _Bar(part_name, (cpu_s,), seconds_words(cpu_s), part_name if part_name in linked else "")
        for part_name, cpu_s in seconds.items()
    ]
    first = bars[0]
    share = rate_words(first.amount / total_s)
    sentence = f"Most CPU time went to {first.name}: {first.words}, {share} of {seconds_words(total_s)}{why}."
    shares = ((bar.name, f"{bar.amount:,.3f}", rate_words(bar.amount / total_s)) for bar in bars)
    table = table_of(title, (heading,), ("CPU, s", "Share"), shares)
    svg = _drawn(_fitting(bars, seconds_words), (SPENT,), "CPU seconds")
    return Figure(name, title, sentence, svg, table)


def _fitting(bars: Sequence[_Bar], amount_words: Callable[[float], str]) -> list[_Bar]:
    """The first bars; those beyond `MOST_BARS` are combined into one."""
    if len(bars) <= MOST_BARS:
        return list(bars)
    single, others = bars[: MOST_BARS - 1], bars[MOST_BARS - 1 :]
    parts = tuple(sum(part or 0.0 for part in amounts) for amounts in zip(*(bar.parts for bar in others), strict=True))
    return [*single, _Bar(counted(len(others), "other"), parts, amount_words(sum(parts)))]


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
        link = {"href": cases_link(criterion=bar.criterion_id)} if bar.criterion_id else {}
        yield {"name": name, "part": part, "amount": amount or 0.0, "order": order, "tip": tip, **link}


# Newest run with enough questions to estimate the variance of a question's price; may be this run.
_PRICED = """
select run_id from cost_history
where rubric_id = ? and judge = ? and version <= ? and request_count >= ?
order by version desc limit 1
"""


@dataclass(frozen=True, slots=True)
class _Part:
    """Forecast of one criterion's cost; None if unknown."""

    open_usd: float | None
    new_usd: float | None
    low_usd: float | None
    high_usd: float | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """Requests and cost of the next run. Dollars are None if a price is unknown.

    Same outputs: recorded_count judgments come from the ledger; open_count without a usable reply are requested again.
    New outputs, output_count of them: new_count judgments at new_usd. 80% of such sums lie in low_usd..high_usd; None
    if there are too few replies.
    """

    recorded_count: int
    open_count: int
    open_usd: float | None
    new_count: int
    new_usd: float | None
    low_usd: float | None
    high_usd: float | None
    output_count: int

    @property
    def sentences(self) -> tuple[str, str]:
        """Sentences about the same outputs and about new outputs."""
        return self._same, self._new

    @property
    def _same(self) -> str:
        recorded = f"{counted(self.recorded_count, 'judgment')} from the ledger"
        if not self.open_count:
            return f"The same outputs again: no new judgment, $0; {recorded}."
        open_words = f"{counted(self.open_count, 'judgment')} without a usable reply, requested again"
        price = "at an unknown price" if self.open_usd is None else f"about {price_words(self.open_usd)}"
        return f"The same outputs again: {open_words}, {price}; {recorded}."

    @property
    def _new(self) -> str:
        sentence = f"{counted(self.output_count, 'new output')}: about {counted(self.new_count, 'judgment')}"
        if self.new_usd is None:
            return f"{sentence}; the cost is unknown, because a price is unknown."
        sentence += f", about {price_words(self.new_usd)}"
        if self.low_usd is None or self.high_usd is None:
            return f"{sentence}; too few replies for a range."
        between = f"{price_words(self.low_usd)} and {price_words(self.high_usd)}"
        return f"{sentence}; in 4 of 5 cases between {between}, for outputs like these."


def read_forecast(source: ReportSource, spending: Spending) -> Forecast | None:
    """Forecast the next run from the billed and saved cost of this run; None if no judgment was paid for.

    New outputs cost as much as this run without the ledger. The range is computed as in `estimate_questions`: for a sum
    of questions whose prices vary like those of the paid questions.
    """
    if not (spending.total.judgment_count or spending.total.replayed_count):
        return None
    wanted = {
        row["criterion_id"]: row for row in source.rows(query("reporting/wanted_questions"), run_id=source.run_id)
    }
    spreads = _spreads(source)
    parts = [_part(costs, wanted.get(costs.part or ""), spreads) for costs in spending.parts["criterion"]]
    wanted_count, open_count = (sum(row[name] for row in wanted.values()) for name in ("wanted_count", "open_count"))
    return Forecast(
        wanted_count - open_count,
        open_count,
        sum_costs(part.open_usd for part in parts),
        wanted_count,
        sum_costs(part.new_usd for part in parts),
        sum_costs(part.low_usd for part in parts),
        sum_costs(part.high_usd for part in parts),
        source.summary.run["output_count"],
    )


def without_ledger(costs: CostSum) -> float | None:
    """Cost of the judgments if each had been requested; None if unknown."""
    unknown_count = costs.unpriced_count + costs.uncounted_count + costs.unpriced_replayed_count
    if unknown_count or costs.billed_usd is None or costs.saved_usd is None:
        return None
    return costs.billed_usd + costs.saved_usd


def _spreads(source: ReportSource) -> Mapping[str, Row]:
    """Variation of a question's price by criterion, from the newest run with enough questions."""
    run = source.summary.run
    priced_runs = source.rows(_PRICED, run["rubric_id"], run["judge"], run["version"], FEWEST_QUESTIONS)
    rows = source.rows(query("reporting/question_costs"), run_id=priced_runs[0]["run_id"]) if priced_runs else ()
    return {row["criterion_id"]: row for row in rows if row["question_count"] >= FEWEST_QUESTIONS}


def _part(costs: CostSum, wanted: Row | None, spreads: Mapping[str, Row]) -> _Part:
    """Forecast of one criterion. asked: its row of wanted_questions; None for written feedback without verdicts."""
    usd = without_ledger(costs)
    if usd is None:
        return _Part(None, None, None, None)
    count = costs.judgment_count + costs.replayed_count
    open_usd = 0.0
    if wanted is not None and wanted["wanted_count"]:
        # Outputs with the same text share a judgment: paid for once, then taken from the ledger.
        count = wanted["wanted_count"]
        usd *= min(1.0, count / max(wanted["paid_count"] + costs.replayed_count, 1))
        open_usd = usd * wanted["open_count"] / count
    variation = spreads.get(costs.part or "")
    if variation is None:
        return _Part(open_usd, usd, None, None)
    spread = sum_spread(usd, variation["sd_usd"], count, variation["question_count"])
    return _Part(open_usd, usd, spread.low, spread.high)


@dataclass(frozen=True, slots=True)
class CostContents:
    """Contents of the section. numbers: name and text of each headline figure; stages: costs of every stage.

    sentence: about the costs. notes: what the sums leave out. forecast: None if no judgment was paid for.
    command: the command that estimates a judge's price instead; None if there is a forecast, or the run had no judge.
    """

    numbers: tuple[tuple[str, str], ...]
    sentence: str
    notes: tuple[str, ...]
    forecast: Forecast | None
    command: str | None
    figures: tuple[Figure, ...]
    stages: Table


def read_cost(source: ReportSource) -> CostContents | None:
    """Read the run's costs, equal to those of `gradebook cost` and `stage_costs`; None if none were recorded."""
    rows = source.summary.costs
    if not rows:
        return None
    spending = sum_spending(source.connection, source.lake, source.run_id, parts=("criterion",))
    figures = (criterion_figure(rows, spending.parts["criterion"]), stage_figure(rows))
    forecast, run = read_forecast(source, spending), source.summary.run
    arguments = ("gradebook", "cost", source.run_id, "--judge", "MODEL")
    return CostContents(
        tuple(_numbers(run, rows, spending.total)),
        _sentence(run, rows, spending.total),
        tuple(f"{note[0].upper()}{note[1:]}." for note in spending.notes),
        forecast,
        None if forecast or run["judge"] is None else shell_line((*arguments, *source.lake.words(is_passed_on=True))),
        tuple(figure for figure in figures if figure is not None),
        cost_table(rows, stage_label),
    )


def _numbers(run: Row, rows: tuple[Row, ...], total: CostSum) -> Iterator[tuple[str, str]]:
    unpriced_count = total.unpriced_count + total.uncounted_count
    yield "Billed", total_price_words(total.billed_usd, unpriced_count)
    if _is_asked(total):
        output_count = max(run["output_count"] or 0, 1)
        whole_usd = without_ledger(total)
        yield "Saved by the ledger", total_price_words(total.saved_usd, total.unpriced_replayed_count)
        yield "Without the ledger", price_words(whole_usd)
        yield "Per output", price_words(None if unpriced_count else (total.billed_usd or 0.0) / output_count)
        yield "Judgments paid for", count_words(total.judgment_count)
        yield "Replayed", count_words(total.replayed_count)
        yield "Tokens in", count_words(total.prompt_tokens)
        if total.prompt_tokens:
            yield "Cached", rate_words(total.cached_tokens / total.prompt_tokens)
        yield "Tokens out", count_words(total.completion_tokens)
    yield "CPU time", seconds_words(sum(row["cpu_s"] for row in rows))


def _is_asked(total: CostSum) -> bool:
    return bool(total.judgment_count or total.replayed_count)


def _sentence(run: Row, rows: tuple[Row, ...], total: CostSum) -> str:
    """Sentence about the run's cost."""
    if _is_asked(total):
        return _paid_words(total)
    cpu = seconds_words(sum(row["cpu_s"] for row in rows))
    outputs = counted(run["output_count"] or 0, "output")
    if run["judge"] is None:
        return f"No judge was asked, so nothing was billed; the work over {outputs} took {cpu} of CPU time."
    return f"The judge's replies were recorded, so nothing was billed; the work over {outputs} took {cpu} of CPU time."


def _paid_words(total: CostSum) -> str:
    sentence = _billed_words(total)
    if not total.replayed_count:
        return f"{sentence}; the ledger had none of them before."
    saved = total_price_words(total.saved_usd, total.unpriced_replayed_count)
    more = "more " if total.judgment_count else ""
    replayed = counted(total.replayed_count, f"{more}judgment")
    sentence += f"; {replayed} came from the ledger, which saved {saved}"
    whole_usd = without_ledger(total)
    if not whole_usd or not total.judgment_count:
        return f"{sentence}."
    return f"{sentence}: {rate_words((total.saved_usd or 0.0) / whole_usd)} of {price_words(whole_usd)}."


def _billed_words(total: CostSum) -> str:
    if not total.judgment_count:
        return "No request was sent, so nothing was billed"
    judgments = counted(total.judgment_count, "judgment")
    if total.billed_usd is None:
        return f"{judgments} {'was' if total.judgment_count == 1 else 'were'} paid for, at an unknown price"
    return f"{judgments} cost {total_price_words(total.billed_usd, total.unpriced_count + total.uncounted_count)}"
