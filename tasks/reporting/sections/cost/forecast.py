"""What the next run will cost: over the same outputs, and over as many new ones."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gradebook.tasks.lake.rows import Row
from gradebook.tasks.lake.sql import query
from gradebook.tasks.ledger.spending import CostSum, Spending
from gradebook.tasks.planning.estimates import FEWEST_QUESTIONS, sum_spread
from gradebook.tasks.reporting.source.report_source import ReportSource
from gradebook.tasks.system.number_format import counted, price_words

# The runs that may tell how much a question's price varies, the newest first: this one is among them.
_PRICED = """
select run_id from cost_history
where rubric_id = ? and judge = ? and version <= ? and request_count >= ?
order by version desc limit 1
"""


@dataclass(frozen=True, slots=True)
class _Part:
    """A criterion's share of a forecast; None where it is not known."""

    open_usd: float | None
    new_usd: float | None
    low_usd: float | None
    high_usd: float | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the next run will ask and cost. The dollars are None where a price is unknown.

    held_count: judgments that the same outputs take from the ledger; open_count: those that have no usable reply and
    are asked for again; new_count: judgments that as many new outputs need; new_usd: what these will cost, 80% of such
    sums lie from low_usd to high_usd, None where too few replies tell.
    """

    held_count: int
    open_count: int
    open_usd: float | None
    new_count: int
    new_usd: float | None
    low_usd: float | None
    high_usd: float | None
    output_count: int

    @property
    def sentences(self) -> tuple[str, str]:
        """What people read: of the same outputs, and of new ones."""
        return self._same, self._new

    @property
    def _same(self) -> str:
        held = f"{counted(self.held_count, 'judgment')} from the ledger"
        if not self.open_count:
            return f"The same outputs again: no new judgment, $0; {held}."
        asked = f"{counted(self.open_count, 'judgment')} without a usable reply asked for again"
        price = "at a price that is unknown" if self.open_usd is None else f"about {price_words(self.open_usd)}"
        return f"The same outputs again: {asked}, {price}; {held}."

    @property
    def _new(self) -> str:
        words = f"{counted(self.output_count, 'new output')}: about {counted(self.new_count, 'judgment')}"
        if self.new_usd is None:
            return f"{words}; what they cost is unknown, as a price is."
        words += f", about {price_words(self.new_usd)}"
        if self.low_usd is None or self.high_usd is None:
            return f"{words}; too few replies tell how far off that may be."
        between = f"{price_words(self.low_usd)} and {price_words(self.high_usd)}"
        return f"{words}; in 4 of 5 cases between {between}, if they are like these."


def read_forecast(source: ReportSource, spending: Spending) -> Forecast | None:
    """Foretell the next run from what this one was billed and saved; None where no judgment was paid for.

    New outputs cost what these would have cost without the ledger. The range is that of `estimate_questions`: of a
    sum of questions, each as far from its criterion's mean as those that were paid for.
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
    """What judgments would have cost if each had been asked for; None where that is not known."""
    unknown_count = costs.unpriced_count + costs.uncounted_count + costs.unpriced_replayed_count
    if unknown_count or costs.billed_usd is None or costs.saved_usd is None:
        return None
    return costs.billed_usd + costs.saved_usd


def _spreads(source: ReportSource) -> Mapping[str, Row]:
    """How much the price of a question varies, by criterion: in the newest run that asked enough of them."""
    run = source.summary.run
    found = source.rows(_PRICED, run["rubric_id"], run["judge"], run["version"], FEWEST_QUESTIONS)
    rows = source.rows(query("reporting/question_costs"), run_id=found[0]["run_id"]) if found else ()
    return {row["criterion_id"]: row for row in rows if row["question_count"] >= FEWEST_QUESTIONS}


def _part(costs: CostSum, asked: Row | None, spreads: Mapping[str, Row]) -> _Part:
    """A criterion's share. asked: its row of wanted_questions, None of written feedback, which no verdict rests on."""
    usd = without_ledger(costs)
    if usd is None:
        return _Part(None, None, None, None)
    count = costs.judgment_count + costs.replayed_count
    open_usd = 0.0
    if asked is not None and asked["wanted_count"]:
        # What outputs of one text share is paid for once, and each of them takes it from the ledger.
        count = asked["wanted_count"]
        usd *= min(1.0, count / max(asked["paid_count"] + costs.replayed_count, 1))
        open_usd = usd * asked["open_count"] / count
    known = spreads.get(costs.part or "")
    if known is None:
        return _Part(open_usd, usd, None, None)
    spread = sum_spread(usd, known["sd_usd"], count, known["question_count"])
    return _Part(open_usd, usd, spread.low, spread.high)


def _added(parts: Iterable[float | None]) -> float | None:
    """The ends of the criteria added up, as a plan does; None where one of them is not known."""
    known = list(parts)
    return None if None in known else sum(part for part in known if part is not None)
