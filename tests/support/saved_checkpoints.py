"""Checkpoints of a model m as tests have them saved: outputs, and a rubric of one check that decides about them."""

import asyncio
from pathlib import Path
from typing import Any

from tests.support.samples import write_lines

RUBRIC = """
id: brief
version: 1.0.0
pass_threshold: 0.25
criteria:
  - id: brief
    description: At most 3 words.
    method: {type: check, check: length_words, settings: {max: 3}}
"""


def write_checkpoint(path: Path, good_count: int, **columns: Any) -> Path:
    """Write outputs of 12 cases, good_count of them brief, with these columns more; returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {"case_id": f"c{case}", "model": "m", "output": "one two three" + " four" * (case >= good_count)}
        for case in range(12)
    ]
    return write_lines(path, [row | columns for row in rows])


def write_brief_rubric(folder: Path) -> Path:
    """Write the rubric; returns its path."""
    path = folder / "rubric.yaml"
    path.write_text(RUBRIC, encoding="utf-8")
    return path


def deploy_checkpoint(name: str) -> str:
    """Make a deployment of the flow that no worker serves; returns FLOW/DEPLOYMENT."""
    from prefect import get_client

    from gradebook.flows.evaluate_checkpoint import evaluate_checkpoint

    async def deploy() -> None:
        async with get_client() as client:
            flow_id = await client.create_flow(evaluate_checkpoint)
            defaults = {"rubric": "brief@1.0.0", "lake": "sqlite:lake/catalog.sqlite"}
            await client.create_deployment(flow_id, name, parameters=defaults)

    asyncio.run(deploy())
    return f"evaluate-checkpoint/{name}"
