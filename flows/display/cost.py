"""Tables of `gradebook cost`, on stdout."""

from gradebook.flows.display.summary import show_plan, usd_range_words
from gradebook.flows.display.terminal import people, plain, say, show_rows
from gradebook.rubrics.model.counts import counted
from gradebook.tasks.ledger.spending import CostSum, Spending
from gradebook.tasks.stages.cost_preview import CostChange
from gradebook.tasks.system.number_format import known_words

HEADINGS = ("billed", "saved", "judgments", "replayed", "tokens in", "cached", "tokens out")


def show_spending(spending: Spending) -> None:
    """Print the total, a table for each breakdown, and notes on costs that are not included."""
    of = f"run {spending.run_id}" if spending.run_id else f"since {plain(spending.since)} UTC"
    if not (spending.total.judgment_count or spending.total.replayed_count):
        none = "no request was sent, and no paid reply was used again (recorded ones cost nothing)"
        say(f"{of}: {'no reply is counted' if any(spending.notes) else none}")
    else:
        say(f"{of}: {_total_words(spending.total)}")
        for part, sums in spending.parts.items():
            people.print()
            show_rows((part, *HEADINGS), ((plain(each.part or ""), *_cells(each)) for each in sums))
    for note in spending.notes:
        say(f"note: {plain(note)}")


def show_change(change: CostChange) -> None:
    """Print the plan after the change, the cost of a run before and after it, and the difference."""
    show_plan(change.rest, change.output_count, None)
    for name, plan in (("now", change.earlier), ("then", change.later)):
        words = usd_range_words(plan.cost_usd, plan.cost_low_usd, plan.cost_high_usd)
        say(f"{name}: {words} a run, {counted(plan.request_count, 'request')} if nothing is judged yet")
    say(change.sentence)
    for note in change.notes:
        say(f"note: {plain(note)}")


def _total_words(total: CostSum) -> str:
    return (
        f"{known_words(total.billed_usd, total.unpriced_count + total.uncounted_count)} billed for "
        f"{counted(total.judgment_count, 'judgment')}, "
        f"{known_words(total.saved_usd, total.unpriced_replayed_count)} saved by {total.replayed_count:,} replayed"
    )


def _cells(costs: CostSum) -> tuple[str, ...]:
    return (
        known_words(costs.billed_usd, costs.unpriced_count + costs.uncounted_count),
        known_words(costs.saved_usd, costs.unpriced_replayed_count),
        f"{costs.judgment_count:,}",
        f"{costs.replayed_count:,}",
        f"{costs.prompt_tokens:,}",
        f"{costs.cached_tokens:,}",
        f"{costs.completion_tokens:,}",
    )
