"""Findings on the judges' replies: unusable replies, models that answered, replayed replies."""

from collections import Counter
from collections.abc import Iterator, Sequence

from gradebook.rubrics.model.counts import counted
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.lake.sql import query
from gradebook.tasks.reporting.drawing.figures import Table, table_of
from gradebook.tasks.reporting.source.findings import Finding, Sign
from gradebook.tasks.reporting.source.report_source import ReportSource
from gradebook.tasks.system.number_format import rate_words

MOST_USELESS_RATE = 0.05  # as in the quality suite of judgments
STATUS_WORDS = {
    "parse_error": "unreadable",
    "refused": "refused",
    "truncated": "cut off",
    "filtered": "filtered by the endpoint",
    "evidence_unverified": "with a quote that is not in the output",
    "abstained": "without a level",
    "no_logprobs": "without probabilities",
}


def reply_findings(source: ReportSource) -> Iterator[Finding]:
    """Findings on replies; none if no judge was asked."""
    replies = source.rows(query("reporting/reply_kinds"), run_id=source.run_id)
    if replies:
        yield _usefulness(replies)
        named = [row for row in replies if row["model_returned"] is not None]
        if named:
            yield _models(named)
    if source.verdict_counts["replayed_count"]:
        yield _replayed(source.verdict_counts)


def _usefulness(replies: Sequence[Row]) -> Finding:
    statuses: Counter[str] = Counter()
    for row in replies:
        statuses[row["status"]] += row["reply_count"]
    reply_count = statuses.total()
    useless_count = reply_count - statuses["scored"]
    judges = counted(len({row["judge"] for row in replies}), "judge")
    words = f"The verdicts are based on {counted(reply_count, 'reply', 'replies')} of {judges}"
    if not useless_count:
        return Finding(Sign.FINE, "Replies", f"{words}; each gave a level.", _statuses_table(replies))
    useless = [(status, count) for status, count in statuses.most_common() if status != "scored"]
    named = ", ".join(f"{count:,} {STATUS_WORDS.get(status, status)} ({status})" for status, count in useless)
    rate = useless_count / reply_count
    sign = Sign.BAD if rate > MOST_USELESS_RATE else Sign.LOOK
    words = f"{words}; {useless_count:,} of them ({rate_words(rate)}) gave no level: {named}."
    return Finding(sign, "Replies", words, _statuses_table(replies))


def _statuses_table(replies: Sequence[Row]) -> Table:
    lines = (
        (row["judge"], row["status"], row["model_returned"] or "not reported", f"{row['reply_count']:,}")
        for row in sorted(replies, key=lambda row: (row["judge"], -row["reply_count"], row["status"]))
    )
    return table_of("Replies by judge", ("Judge", "Status", "Model that answered"), ("Replies",), lines)


def _models(named: Sequence[Row]) -> Finding:
    """Finding on the models that answered, as reported by the endpoint: another model is another judge."""
    answered: dict[str, Counter[str]] = {}
    for row in named:
        answered.setdefault(row["judge"], Counter())[row["model_returned"]] += row["reply_count"]
    several = {judge: models for judge, models in answered.items() if len(models) > 1}
    other = {judge: models for judge, models in answered.items() if set(models) != {judge}}
    if not other:
        return Finding(
            Sign.FINE, "Models asked", f"The models that answered are the models asked: {', '.join(sorted(answered))}."
        )
    named_words = "; ".join(
        f"asked for {judge}, answered as {', '.join(f'{model} ({count:,})' for model, count in models.most_common())}"
        for judge, models in sorted(other.items())
    )
    # A name with a date appended is the same model; another name, or several names, may be another model.
    is_dated = not several and all(model.startswith(judge) for judge, models in other.items() for model in models)
    return Finding(Sign.FINE if is_dated else Sign.LOOK, "Models asked", f"As reported by the endpoint: {named_words}.")


def _replayed(counts: Row) -> Finding:
    rate = counts["replayed_count"] / counts["judged_count"] if counts["judged_count"] else None
    words = (
        f"{counts['replayed_count']:,} of {counted(counts['judged_count'], 'judged verdict')} ({rate_words(rate)}) "
        "use earlier replies, from the ledger or recorded; new requests might give other levels."
    )
    return Finding(Sign.FINE, "Replayed", words)
