"""Tables of better questions for a judge, on stdout."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from gradebook.flows.display.terminal import plain, say, show_rows, stdout
from gradebook.rubrics.statistics.improvement import Change
from gradebook.rubrics.text.wording import counted, p_words, price_words, rate_words, signed_words, with_interval
from gradebook.tasks.learning.compare import Frontier, FrontierRow
from gradebook.tasks.learning.improve import CriterionOutcome, Improvement, Preview

UNKNOWN = "–"


def show_preview(previews: Sequence[Preview], skipped: Mapping[str, str]) -> None:
    """Print what the ratings can show, and what the search may ask, before it asks anything."""
    say("kappa with people on the rated outputs, and the rise that these ratings find four times in five")
    headings = ("criterion", "outputs", "cases", "kappa", "people", "rise found", "finds .20", "judgments", "about $")
    show_rows(headings, map(_preview_cells, previews))
    for preview in previews:
        if preview.ceiling is None:
            say(f"note: {plain(preview.criterion_id)}: no output has two ratings, so people's own agreement is unknown")
        if preview.left_out:
            count, queues = counted(sum(preview.left_out.values()), "rated output"), ", ".join(preview.left_out)
            say(f"note: {plain(preview.criterion_id)}: left out {count} that a queue chose ({plain(queues)})")
    for criterion_id, reason in skipped.items():
        say(f"note: {plain(criterion_id)} is left as it is: {plain(reason)}")


def _preview_cells(preview: Preview) -> tuple[str, ...]:
    power, ceiling = preview.power, preview.ceiling
    return (
        preview.criterion_id,
        f"{power.n:,}",
        f"{power.cluster_count:,}",
        _number(power.kappa),
        UNKNOWN if ceiling is None else f"{ceiling.people:.2f} on {ceiling.n:,}",
        _number(power.detectable),
        UNKNOWN if power.of_twenty is None else rate_words(power.of_twenty),
        f"{preview.most_questions:,}",
        UNKNOWN if preview.usd is None else price_words(preview.usd),
    )


def show_improvement(improvement: Improvement, path: Path | None) -> None:
    """Print the agreement before and after by criterion, the candidates, and where the new version is."""
    stdout.print()
    say("agreement on cases that the search had not seen, with 95% intervals over cases; p over all criteria")
    headings = ("criterion", "kappa before", "after", "rise", "p", "order in a case", "judgments", "outcome")
    show_rows(headings, map(_outcome_cells, improvement.outcomes))
    for outcome in improvement.outcomes:
        _show_candidates(outcome)
    say(f"spent: {price_words(improvement.spent_usd)}")
    for outcome in improvement.outcomes:
        if words := _next_words(outcome):
            say(f"{plain(outcome.preview.criterion_id)}: {words}")
    if path is None or improvement.rubric is None:
        say("nothing is accepted: no file is written")
        return
    say(f"{plain(improvement.rubric.id)} {improvement.rubric.version} is in {plain(path)}, not registered; next:")
    say(f"  gradebook rubric diff {plain(improvement.rubric_name.replace(' ', '@'))} {plain(path)}")
    say(f"  gradebook rubric register {plain(path)}")


def _outcome_cells(outcome: CriterionOutcome) -> tuple[str, ...]:
    change, order = outcome.change, outcome.order
    pairs = UNKNOWN if order.before is None or order.after is None else f"{order.before:.2f} to {order.after:.2f}"
    return (
        outcome.preview.criterion_id,
        _number(change.before),
        _number(change.after),
        _change_words(change),
        p_words(outcome.p_family),
        pairs,
        f"{outcome.question_count:,}",
        "accepted" if outcome.is_accepted else str(outcome.reason),
    )


def _show_candidates(outcome: CriterionOutcome) -> None:
    stdout.print()
    say(f"candidates for {plain(outcome.preview.criterion_id)}: kappa on the cases that chose, and on the other half")
    rows = (
        (
            f"{tried.half + 1}",
            tried.name,
            _number(tried.middle_kappa),
            _number(tried.outer_kappa),
            tried.reason or "chosen",
            tried.guidance or "",
        )
        for tried in outcome.tried
    )
    show_rows(("half", "candidate", "choice", "unseen", "outcome", "guidance"), rows)
    say(f"bias by model, its size before and after: {'; '.join(_bias_words(outcome.biases))}")


def _bias_words(biases: Mapping[str, Change]) -> list[str]:
    return [
        f"{plain(model)} {_number(bias.before)} to {_number(bias.after)}"
        + (" (grew beyond chance)" if bias.low is not None and bias.low > 0 else "")
        for model, bias in biases.items()
    ]


def _next_words(outcome: CriterionOutcome) -> str | None:
    """Sentence on the ratings that would decide, or on the examples of an accepted question; None otherwise."""
    if outcome.is_accepted:
        if outcome.chosen is not None and outcome.chosen.example_cases:
            cases = ", ".join(outcome.chosen.example_cases)
            return f"its examples are of {plain(cases)}: a run that evaluates these cases is refused"
        return None
    if outcome.more is None:
        return "more ratings would not decide for these candidates"
    return f"with about {outcome.more:,} more rated outputs, a rise like this one is found four times in five"


def _change_words(change: Change) -> str:
    if change.rise is None:
        return UNKNOWN
    if change.low is None or change.high is None:
        return signed_words(change.rise, 2)
    return with_interval(change.rise, change.low, change.high, lambda value: signed_words(value, 2))


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.2f}"


def show_frontier(frontier: Frontier) -> None:
    """Print each candidate's agreement against its price; * is the cheapest that is not worse than the best."""
    if not frontier.rows:
        return
    stdout.print()
    say(f"agreement against price, with 95% intervals over cases; * the cheapest not worse by {frontier.margin:g}")
    headings = ("", "criterion", "candidate", "outputs", "kappa", "behind the best", "bias", "$ per 1,000", "frontier")
    show_rows(headings, map(_frontier_cells, frontier.rows))
    for note in frontier.notes:
        say(f"note: {plain(note)}")
    if frontier.spent_usd:
        say(f"spent: {price_words(frontier.spent_usd)}")


def _frontier_cells(row: FrontierRow) -> tuple[str, ...]:
    kappa = _number(row.kappa)
    if row.kappa is not None and row.low is not None and row.high is not None:
        kappa = with_interval(row.kappa, row.low, row.high, _number)
    return (
        "*" if row.is_chosen else "",
        row.criterion_id,
        row.name,
        f"{row.n:,}",
        kappa,
        "" if row.behind is None else _change_words(row.behind),
        signed_words(row.bias),
        UNKNOWN if row.usd_per_1000 is None else price_words(row.usd_per_1000),
        "yes" if row.is_on_frontier else "",
    )
