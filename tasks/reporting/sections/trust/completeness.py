"""Findings on completeness: rows refused, expectations not met, verdicts without a score."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from gradebook.rubrics.model.counts import counted
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.lake.sql import query
from gradebook.tasks.reporting.drawing.figures import Table, table_of
from gradebook.tasks.reporting.source.findings import Finding, Sign
from gradebook.tasks.reporting.source.report_source import ReportSource
from gradebook.tasks.system.number_format import rate_words

MOST_ROWS = 10  # refused rows in the table
MOST_REASONS = 5  # named in a sentence
MOST_GAPS = 100  # rows in the table of missing scores

_REFUSED_REASONS = """
select reason, count(*) as row_count from quarantine where run_id = ? group by reason order by row_count desc, reason
"""
_REFUSED = "select source, line, reason from quarantine where run_id = ? order by source, line limit ?"
_UNMET = """
select stage, subject, expectation, severity, unexpected_count, observed from quality_results
where run_id = ? and not is_met order by severity, stage, subject, expectation
"""


def completeness_findings(source: ReportSource) -> Iterator[Finding]:
    """Findings on input rows, data-quality expectations and missing scores."""
    reasons = source.rows(_REFUSED_REASONS, source.run_id)
    yield _rows_in(source, sum(row["row_count"] for row in reasons))
    if reasons:
        yield _refused(source, reasons)
    yield _quality(source)
    yield _coverage(source)


def _rows_in(source: ReportSource, refused_count: int) -> Finding:
    """Finding that accounts for each input row; bad if the parts do not add up."""
    output_count = sum(row["output_count"] for row in source.summary.scores)
    scored_count = sum(row["n"] for row in source.summary.scores)
    parts = f"{counted(scored_count, 'output')} with a score, {output_count - scored_count:,} without one"
    if source.criteria and all(row["is_gate"] for row in source.criteria) and not scored_count:
        parts += " (the rubric has only gates)"
    if penalised_count := sum(row["output_count"] for row in source.summary.penalised):
        parts += f" ({penalised_count:,} with penalties only)"
    of_ingest = (row for row in source.summary.costs if row["stage"] == "ingest" and row["criterion_id"] is None)
    row_count = next((row["row_count"] for row in of_ingest), None)
    if not row_count:
        return Finding(Sign.FINE, "Rows", f"{parts}; the number of rows read was not recorded.")
    repeated_count = row_count - output_count - refused_count
    words = f"{counted(row_count, 'row')} read: {parts}, {refused_count:,} refused"
    if repeated_count < 0:
        return Finding(Sign.BAD, "Rows", f"{words}; these are {-repeated_count:,} more than were read.")
    adds_up = f"{scored_count:,} + {output_count - scored_count:,} + {refused_count:,} + {repeated_count:,}"
    rest = "repeated and stored once" if source.summary.run["stopped_at"] is None else "not needed, or repeated"
    return Finding(Sign.FINE, "Rows", f"{words}, {repeated_count:,} {rest} ({adds_up} = {row_count:,}).")


def _refused(source: ReportSource, reasons: Sequence[Row]) -> Finding:
    refused_count = sum(row["row_count"] for row in reasons)
    named = _named(Counter({row["reason"]: row["row_count"] for row in reasons}))
    shown = source.rows(_REFUSED, source.run_id, MOST_ROWS)
    caption = f"Rows refused{f', the first {MOST_ROWS} of {refused_count:,}' if refused_count > MOST_ROWS else ''}"
    lines = ((row["source"], row["reason"], "–" if row["line"] is None else f"{row['line']:,}") for row in shown)
    words = f"{counted(refused_count, 'row')} refused: {named}. Scores do not include them."
    return Finding(Sign.LOOK, "Quarantine", words, table_of(caption, ("File", "Reason"), ("Line",), lines))


def _named(counts: Mapping[str, int]) -> str:
    """Most frequent reasons with their counts, and the count of all others."""
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    words = [f"{name} ({count:,})" for name, count in ranked[:MOST_REASONS]]
    rest = sum(count for _, count in ranked[MOST_REASONS:])
    return ", ".join([*words, *([f"other reasons ({rest:,})"] if rest else [])])


def _quality(source: ReportSource) -> Finding:
    stages = source.summary.quality
    expected_count = sum(row["expectation_count"] for row in stages)
    if not expected_count:
        return Finding(Sign.LOOK, "Data quality", "No data-quality expectation was checked in this run.")
    unmet = source.rows(_UNMET, source.run_id)
    checked = f"{counted(expected_count, 'expectation')} checked at {counted(len(stages), 'stage')}"
    if not unmet:
        counts = ((row["stage"], f"{row['expectation_count']:,}", f"{row['unmet_count']:,}") for row in stages)
        table = table_of("Expectations by stage", ("Stage",), ("Expectations", "Not met"), counts)
        return Finding(Sign.FINE, "Data quality", f"{checked}; all are met.", table)
    is_bad = any(row["severity"] == "error" for row in unmet)
    named = ", ".join(f"{row['subject']}: {row['expectation'].rstrip('.')}" for row in unmet[:MOST_REASONS])
    more = f" and {len(unmet) - MOST_REASONS:,} more" if len(unmet) > MOST_REASONS else ""
    words = f"{checked}; {len(unmet):,} not met: {named}{more}."
    return Finding(Sign.BAD if is_bad else Sign.LOOK, "Data quality", words, _unmet_table(unmet))


def _unmet_table(unmet: Sequence[Row]) -> Table:
    lines = (
        (
            *(row["stage"], row["subject"], row["expectation"], row["severity"], row["observed"] or ""),
            "–" if row["unexpected_count"] is None else f"{row['unexpected_count']:,}",
        )
        for row in unmet
    )
    words = ("Stage", "Subject", "Expectation", "Severity", "Found")
    return table_of("Expectations that are not met", words, ("Rows",), lines)


def _coverage(source: ReportSource) -> Finding:
    """Finding on the share of verdicts with a score, with the reasons of the others."""
    verdict_count, scored_count = source.verdict_counts["verdict_count"], source.verdict_counts["scored_count"]
    if not verdict_count:
        return Finding(Sign.BAD, "Coverage", "The run has no verdicts.")
    if scored_count == verdict_count:
        every = "The only verdict has" if verdict_count == 1 else f"All {verdict_count:,} verdicts have"
        return Finding(Sign.FINE, "Coverage", f"{every} a score.")
    gaps = source.rows(query("reporting/gaps"), run_id=source.run_id)
    reasons: Counter[str] = Counter()
    by_place: dict[tuple[str, str, str | None], Counter[str]] = {}
    for gap in gaps:
        reasons[gap["reason"]] += gap["unscored_count"]
        key = (gap["criterion_id"], gap["model"], gap["checkpoint"])
        by_place.setdefault(key, Counter())[gap["reason"]] += gap["unscored_count"]
    short = [row for row in source.summary.criteria if row["n"] < row["output_count"]]
    short.sort(key=lambda row: (row["coverage_rate"], row["criterion_id"], model_name(row)))
    rate = rate_words(scored_count / verdict_count)
    words = (
        f"{scored_count:,} of {counted(verdict_count, 'verdict')} {'has' if scored_count == 1 else 'have'} a score "
        f"({rate}). The others: {_named(reasons)}."
    )
    empty = list(dict.fromkeys(row["criterion_id"] for row in short if not row["n"]))
    if empty:
        named = ", ".join(empty[:MOST_REASONS]) + (" and more" if len(empty) > MOST_REASONS else "")
        words += f" A model has no score on {named}."
    return Finding(Sign.BAD if empty else Sign.LOOK, "Coverage", words, _gap_table(short, by_place))


def _gap_table(short: Sequence[Row], by_place: Mapping[tuple[str, str, str | None], Counter[str]]) -> Table:
    more = f", the {MOST_GAPS} lowest of {len(short):,}" if len(short) > MOST_GAPS else ""
    lines = (
        (
            row["criterion_id"],
            model_name(row),
            _named(by_place.get((row["criterion_id"], row["model"], row["checkpoint"]), Counter())),
            f"{row['n']:,}",
            f"{row['output_count']:,}",
            rate_words(row["coverage_rate"]),
        )
        for row in short[:MOST_GAPS]
    )
    return table_of(
        f"Criteria and models with missing scores{more}",
        ("Criterion", "Model", "Why"),
        ("Scored", "Outputs", "Coverage"),
        lines,
    )
