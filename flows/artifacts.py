"""What a flow shows of a published run on the page of a Prefect server: Markdown, and a link to the report."""

from pathlib import Path

from prefect.artifacts import acreate_link_artifact, acreate_markdown_artifact

from tasks.reporting.comment import artifact_texts
from tasks.summary import RunSummary


async def show_artifacts(summary: RunSummary, report: Path) -> None:
    """Keep the run's scores, its comparison where it has one, its costs, and where its report is."""
    for key, description, text in artifact_texts(summary):
        await acreate_markdown_artifact(text, key=key, description=description)
    await acreate_link_artifact(report.as_uri(), key="report", link_text=f"Report of run {summary.run_id}")
