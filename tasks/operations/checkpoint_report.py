"""Decision about a checkpoint in Markdown, for a Prefect artifact."""

from gradebook.tasks.comparing.run_comparison import RunComparison
from gradebook.tasks.operations.checkpoint_gate import CheckpointDecision
from gradebook.tasks.reporting.export.markdown import escaped, table_text
from gradebook.tasks.reporting.export.run_tables import comparison_table, sides_words
from gradebook.tasks.system.number_format import score_words

MOST_ROWS = 100


def checkpoint_text(decision: CheckpointDecision) -> str:
    """Decision, reasons, and comparisons with the last run and the best checkpoint, in Markdown."""
    row = decision.row
    title = f"{row['model']} @ {row['checkpoint']}: {row['status'].replace('_', ' ')}"
    words = f"By {row['rubric_id']} {row['rubric_version']}, run {row['run_id']}; mean {score_words(row['mean'])}."
    again = "" if decision.is_new else "This is an earlier decision; nothing was evaluated again.\n\n"
    reasons = "".join(f"- {escaped(reason)}\n" for reason in row["reasons"])
    parts = [f"#### {escaped(title)}\n\n{escaped(words)}\n\n{again}{reasons}"]
    parts += [f"{escaped(decision.note)}\n"] if decision.note else []
    parts += _comparison_part("Compared with the last run", decision.latest)
    if decision.best is not decision.latest:
        parts += _comparison_part("Compared with the best approved checkpoint, or the reference", decision.best)
    return "\n".join(parts)


def _comparison_part(title: str, comparison: RunComparison | None) -> list[str]:
    if comparison is None:
        return []
    banner = "" if comparison.banner is None else f"> {escaped(comparison.banner)}\n\n"
    table = table_text(comparison_table(comparison, MOST_ROWS))
    return [f"#### {title}\n\n{banner}{escaped(sides_words(comparison))}\n\n{table}\n"]
