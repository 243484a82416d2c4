"""Prefect artifacts of a published run: Markdown, and a link to the report."""

import asyncio
import os
from pathlib import Path

from prefect import get_run_logger
from prefect.artifacts import acreate_link_artifact, acreate_markdown_artifact

from gradebook.flows.deployment.names import artifact_key, suites_title
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.operations.nightly import Night, night_text
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.reporting.export.comment import artifact_texts

LONGEST_S = 30.0  # maximum wait for a server
SITE_URL = "GRADEBOOK_SITE_URL"  # where the folder of `gradebook site` is served: links to reports then open anywhere


async def show_artifacts(summary: RunSummary, report: Path, lake: Lake, suite: str | None = None) -> None:
    """Store the run's scores, comparison, costs and report link as artifacts, under keys of the suite or rubric.

    The run is already published, so a missing server is only logged.
    """
    subject = suite or summary.run["rubric_id"]
    try:
        async with asyncio.timeout(LONGEST_S):
            texts = [
                acreate_markdown_artifact(text, key=artifact_key(subject, kind), description=description)
                for kind, description, text in artifact_texts(summary, lake.words(is_passed_on=True))
            ]
            key, text = artifact_key(subject, "report"), f"Report of run {summary.run_id}"
            await asyncio.gather(
                *texts, acreate_link_artifact(report_url(summary.run_id, report), key=key, link_text=text)
            )
    except Exception as error:  # noqa: BLE001 - see above
        get_run_logger().warning("run %s is published; its artifacts could not be stored: %r", summary.run_id, error)


def report_url(run_id: str, report: Path) -> str:
    """Address of a run's report: on the site if the environment names one, else the file on this machine."""
    site = os.environ.get(SITE_URL, "").rstrip("/")
    return f"{site}/runs/{run_id}.html" if site else report.as_uri()


async def show_night(night: Night, suites: str) -> None:
    """Store the outcomes of a nightly run's suites as an artifact, under a key of their file.

    A missing server is only logged.
    """
    try:
        async with asyncio.timeout(LONGEST_S):
            key, description = artifact_key(suites_title(suites), "nightly"), f"Nightly run of {night.date}"
            await acreate_markdown_artifact(night_text(night), key=key, description=description)
    except Exception as error:  # noqa: BLE001 - the suites are already published
        get_run_logger().warning("nightly run of %s: its artifact could not be stored: %r", night.date, error)
