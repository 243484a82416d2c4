"""Cost forecast of the next run: over the same outputs, and over as many new outputs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gradebook.rubrics.model.counts import counted
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.lake.sql import query
from gradebook.tasks.ledger.spending import CostSum, Spending
from gradebook.tasks.planning.estimates import FEWEST_QUESTIONS, sum_spread
from gradebook.tasks.reporting.source.report_source import ReportSource
from gradebook.tasks.system.number_format import price_words

# Newest run with enough questions to estimate the variance of a question's price; may be this run.
_PRICED = """
select run_id from cost_history
where rubric_id = ? and judge = ? and version <= ? and request_count >= ?
order by version desc limit 1
"""


@dataclass(frozen=True, slots=True)
class _Part:
    """One criterion's part of a forecast; None if unknown."""

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
        asked = f"{counted(self.open_count, 'judgment')} without a usable reply, requested again"
        price = "at an unknown price" if self.open_usd is None else f"about {price_words(self.open_usd)}"
        return f"The same outputs again: {asked}, {price}; {recorded}."

    @property
    def _new(self) -> str:
        words = f"{counted(self.output_count, 'new output')}: about {counted(self.new_count, 'judgment')}"
        if self.new_usd is None:
            return f"{words}; the cost is unknown, because a price is unknown."
        words += f", about {price_words(self.new_usd)}"
        if self.low_usd is None or self.high_usd is None:
            return f"{words}; too few replies for a range."
        between = f"{price_words(self.low_usd)} and {price_words(self.high_usd)}"
        return f"{words}; in 4 of 5 cases between {between}, for outputs like these."


def read_forecast(source: ReportSource, spending: Spending) -> Forecast | None:
    """Forecast the next run from the billed and saved cost of this run; None if no judgment was paid for.

    New outputs cost as much as this run without the ledger. The range is computed as in `estimate_questions`: for a sum
    of questions whose prices vary like those of the paid questions.
    """
    if not (spending.total.judgment_count or spending.total.replayed_count):
        return None
    asked = {row["criterion_id"]: row for row in source.rows(query("reporting/wanted_questions"), run_id=source.run_id)}
    spreads = _spreads(source)
    parts = [_part(costs, asked.get(costs.part or ""), spreads) for costs in spending.parts["criterion"]]
    wanted_count, open_count = (sum(row[name] for row in asked.values()) for name in ("wanted_count", "open_count"))
    return Forecast(
        wanted_count - open_count,
        open_count,
        _added(part.open_usd for part in parts),
        wanted_count,
        _added(part.new_usd for part in parts),
        _added(part.low_usd for part in parts),
        _added(part.high_usd for part in parts),
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
    found = source.rows(_PRICED, run["rubric_id"], run["judge"], run["version"], FEWEST_QUESTIONS)
    rows = source.rows(query("reporting/question_costs"), run_id=found[0]["run_id"]) if found else ()
    return {row["criterion_id"]: row for row in rows if row["question_count"] >= FEWEST_QUESTIONS}


def _part(costs: CostSum, asked: Row | None, spreads: Mapping[str, Row]) -> _Part:
    """Forecast of one criterion. asked: its row of wanted_questions; None for written feedback without verdicts."""
    usd = without_ledger(costs)
    if usd is None:
        return _Part(None, None, None, None)
    count = costs.judgment_count + costs.replayed_count
    open_usd = 0.0
    if asked is not None and asked["wanted_count"]:
        # Outputs with the same text share a judgment: paid for once, then taken from the ledger.
        count = asked["wanted_count"]
        usd *= min(1.0, count / max(asked["paid_count"] + costs.replayed_count, 1))
        open_usd = usd * asked["open_count"] / count
    known = spreads.get(costs.part or "")
    if known is None:
        return _Part(open_usd, usd, None, None)
    spread = sum_spread(usd, known["sd_usd"], count, known["question_count"])
    return _Part(open_usd, usd, spread.low, spread.high)


def _added(parts: Iterable[float | None]) -> float | None:
    """Sum over criteria, as in a plan; None if one is unknown."""
    known = list(parts)
    return None if None in known else sum(part for part in known if part is not None)
