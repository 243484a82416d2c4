"""What a flow shows of a published run on the page of a Prefect server: Markdown, and a link to the report."""

import asyncio
from pathlib import Path

from prefect import get_run_logger
from prefect.artifacts import acreate_link_artifact, acreate_markdown_artifact

from gradebook.tasks.operations.nightly import Night, night_text
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.reporting.export.comment import artifact_texts

LONGEST_S = 30.0  # that a server may take


async def show_artifacts(summary: RunSummary, report: Path) -> None:
    """Keep the run's scores, its comparison where it has one, its costs, and where its report is.

    The run is published: that a server is gone is told in its log, and keeps nobody waiting.
    """
    try:
        async with asyncio.timeout(LONGEST_S):
            for key, description, text in artifact_texts(summary):
                await acreate_markdown_artifact(text, key=key, description=description)
            await acreate_link_artifact(report.as_uri(), key="report", link_text=f"Report of run {summary.run_id}")
    except Exception as error:  # noqa: BLE001 - see above
        get_run_logger().warning("run %s is published, its artifacts are not kept: %r", summary.run_id, error)


async def show_night(night: Night) -> None:
    """Keep how the suites of a night ended. That a server is gone is told in its log, as above."""
    try:
        async with asyncio.timeout(LONGEST_S):
            await acreate_markdown_artifact(night_text(night), key="nightly", description=f"The night of {night.date}")
    except Exception as error:  # noqa: BLE001 - the suites are published, whoever can't show it
        get_run_logger().warning("the night of %s is over, its artifact is not kept: %r", night.date, error)
