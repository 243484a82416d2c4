"""The decision about a checkpoint in Markdown, for the page of a Prefect server."""

from gradebook.tasks.comparing.run_comparison import RunComparison
from gradebook.tasks.operations.checkpoint_gate import CheckpointDecision
from gradebook.tasks.reporting.export.markdown import escaped, table_text
from gradebook.tasks.reporting.export.run_tables import comparison_table, sides_words
from gradebook.tasks.system.number_format import score_words

MOST_ROWS = 100


def checkpoint_text(decision: CheckpointDecision) -> str:
    """What was decided, why, and the figures beside the last run and the best checkpoint."""
    row = decision.row
    title = f"{row['model']} @ {row['checkpoint']}: {row['status'].replace('_', ' ')}"
    words = f"By {row['rubric_id']} {row['rubric_version']}, run {row['run_id']}; mean {score_words(row['mean'])}."
    again = "" if decision.is_new else "It was decided before: nothing was done again.\n\n"
    reasons = "".join(f"- {escaped(reason)}\n" for reason in row["reasons"])
    parts = [f"#### {escaped(title)}\n\n{escaped(words)}\n\n{again}{reasons}"]
    parts += _beside("Beside the last run", decision.latest)
    if decision.best is not decision.latest:
        parts += _beside("Beside the best approved checkpoint", decision.best)
    return "\n".join(parts)


def _beside(title: str, comparison: RunComparison | None) -> list[str]:
    if comparison is None:
        return []
    banner = "" if comparison.banner is None else f"> {escaped(comparison.banner)}\n\n"
    table = table_text(comparison_table(comparison, MOST_ROWS))
    return [f"#### {title}\n\n{banner}{escaped(sides_words(comparison))}\n\n{table}\n"]
