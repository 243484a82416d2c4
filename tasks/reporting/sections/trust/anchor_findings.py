"""Findings on the judge over time: what its anchors showed."""

from collections.abc import Iterator

from gradebook.tasks.lake.sql import query
from gradebook.tasks.reporting.drawing.figures import table_of
from gradebook.tasks.reporting.source.findings import Finding, Sign
from gradebook.tasks.reporting.source.report_source import ReportSource
from gradebook.tasks.system.number_format import difference_interval_words, signed_words


def anchor_findings(source: ReportSource) -> Iterator[Finding]:
    """Finding on the last night before the run on which the judge was watched; none without anchors."""
    run = source.summary.run
    rows = source.rows(query("published/judge_states"), judge=run["judge"], until=run["finished_at"])
    if not rows:
        return
    first, drifted = rows[0], [row["criterion_id"] for row in rows if row["state"] == "drifted"]
    named = f"on the anchors {first['anchor_set']}, night {first['night']}"
    if drifted:
        words = f"{first['judge']} scores the same outputs otherwise than before on {', '.join(drifted)}, {named}."
    elif first["state"] in ("reference", "new_model"):
        words = f"A new epoch of {first['judge']} began {named}: it is compared with nothing before."
    else:
        words = f"No sign that {first['judge']} changed, {named}: its evidence is {first['e_value']:.3g}, and "
        words += f"{first['alarm_at']:.0f} would be an alarm."
    sign = Sign.BAD if drifted else Sign.FINE if first["state"] == "steady" else Sign.LOOK
    cells = [
        (
            row["criterion_id"],
            row["state"],
            f"{row['epoch']}",
            signed_words(row["mean_gap"]),
            difference_interval_words(row["gap_low"], row["gap_high"]),
            signed_words(row["people_gap"]),
            f"{row['e_value']:.3g}",
        )
        for row in rows
    ]
    headings = ("Criterion", "State"), ("Epoch", "From frozen scores", "95% interval", "From people", "Evidence")
    yield Finding(sign, "Judge over time", words, table_of("Anchors, last night", *headings, cells))
