"""Section "Cost": the run's cost by criterion and stage, and a forecast of the next run."""

from collections.abc import Iterator
from dataclasses import dataclass

from gradebook.rubrics.model.counts import counted
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.ledger.spending import CostSum, sum_spending
from gradebook.tasks.reporting.drawing.figures import Figure, Table, table_of
from gradebook.tasks.reporting.sections.cost.cost_figures import criterion_figure, stage_figure
from gradebook.tasks.reporting.sections.cost.forecast import Forecast, read_forecast, without_ledger
from gradebook.tasks.reporting.source.report_source import ReportSource
from gradebook.tasks.system.number_format import count_words, known_words, price_words, rate_words, seconds_words
from gradebook.tasks.system.shell import shell_line
from gradebook.tasks.workspace.timings import stage_words

STAGE_NUMBERS = (
    *("Rows", "Wall, s", "CPU, s", "Requests", "Replayed", "Tokens in", "Cached", "Tokens out"),
    *("Billed", "Saved"),
)


@dataclass(frozen=True, slots=True)
class CostContents:
    """Contents of the section. numbers: name and text of each headline figure; stages: costs of every stage.

    reading: sentence about the costs. notes: what the sums leave out. forecast: None if no judgment was paid for.
    command: the command that estimates a judge's price instead; None if there is a forecast, or the run had no judge.
    """

    numbers: tuple[tuple[str, str], ...]
    reading: str
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
    found = (criterion_figure(rows, spending.parts["criterion"]), stage_figure(rows))
    forecast, run = read_forecast(source, spending), source.summary.run
    words = ("gradebook", "cost", source.run_id, "--judge", "MODEL")
    return CostContents(
        tuple(_numbers(run, rows, spending.total)),
        _reading(run, rows, spending.total),
        tuple(f"{note[0].upper()}{note[1:]}." for note in spending.notes),
        forecast,
        None if forecast or run["judge"] is None else shell_line((*words, *source.lake.words(is_passed_on=True))),
        tuple(figure for figure in found if figure is not None),
        table_of("Costs by stage and criterion", ("Stage", "Criterion"), STAGE_NUMBERS, map(_stage_cells, rows)),
    )


def _numbers(run: Row, rows: tuple[Row, ...], total: CostSum) -> Iterator[tuple[str, str]]:
    unpriced_count = total.unpriced_count + total.uncounted_count
    yield "Billed", known_words(total.billed_usd, unpriced_count)
    if _is_asked(total):
        output_count = max(run["output_count"] or 0, 1)
        whole_usd = without_ledger(total)
        yield "Saved by the ledger", known_words(total.saved_usd, total.unpriced_replayed_count)
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


def _reading(run: Row, rows: tuple[Row, ...], total: CostSum) -> str:
    """Sentence about the run's cost."""
    if _is_asked(total):
        return _paid_words(total)
    cpu = seconds_words(sum(row["cpu_s"] for row in rows))
    outputs = counted(run["output_count"] or 0, "output")
    if run["judge"] is None:
        return f"No judge was asked, so nothing was billed; the work over {outputs} took {cpu} of CPU time."
    return f"The judge's replies were recorded, so nothing was billed; the work over {outputs} took {cpu} of CPU time."


def _paid_words(total: CostSum) -> str:
    words = _billed_words(total)
    if not total.replayed_count:
        return f"{words}; the ledger had none of them before."
    saved = known_words(total.saved_usd, total.unpriced_replayed_count)
    more = "more " if total.judgment_count else ""
    replayed = counted(total.replayed_count, f"{more}judgment")
    words += f"; {replayed} came from the ledger, which saved {saved}"
    whole_usd = without_ledger(total)
    if not whole_usd or not total.judgment_count:
        return f"{words}."
    return f"{words}: {rate_words((total.saved_usd or 0.0) / whole_usd)} of {price_words(whole_usd)}."


def _billed_words(total: CostSum) -> str:
    if not total.judgment_count:
        return "No request was sent, so nothing was billed"
    judgments = counted(total.judgment_count, "judgment")
    if total.billed_usd is None:
        return f"{judgments} {'was' if total.judgment_count == 1 else 'were'} paid for, at an unknown price"
    return f"{judgments} cost {known_words(total.billed_usd, total.unpriced_count + total.uncounted_count)}"


def _stage_cells(row: Row) -> tuple[str, ...]:
    return (
        stage_words(row["stage"]),
        row["criterion_id"] or "",
        _known_cell(row["row_count"]),
        _known_cell(row["wall_s"], ".2f"),
        _known_cell(row["cpu_s"], ".2f"),
        *(_known_cell(row[name]) for name in ("request_count", "replayed_count")),
        *(_known_cell(row[name]) for name in ("prompt_tokens", "cached_tokens", "completion_tokens")),
        price_words(row["cost_usd"]),
        price_words(row["saved_usd"]),
    )


def _known_cell(value: float | None, digits: str = "") -> str:
    """Number of a stage as text; lakes of earlier versions of gradebook lack some."""
    return "–" if value is None else format(value, f",{digits}")
