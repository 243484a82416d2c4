"""The nightly flow, run by a command in its own process."""

import asyncio
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import cast

from gradebook.flows.server.start import prefect_set_up, report_lost_server
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.operations.nightly import Night, NightUnfinished


def evaluate_night_here(
    suites: Path, night: date | None, only: Sequence[str], lake: str, data: str | None, *, is_verbose: bool = False
) -> Night:
    """Run the nightly flow in this process; returns how each suite ended, even if some failed.

    suites: a file that was read without errors. Raises `InputError` if the lake is wrong.
    """
    with prefect_set_up(find_lake(lake, data), is_verbose=is_verbose):
        from gradebook.flows.evaluate_nightly import evaluate_nightly

        try:
            with report_lost_server():
                # mypy sees the returned state; callers get its value
                ended = cast(Night, asyncio.run(evaluate_nightly(str(suites), night, list(only) or None, lake, data)))
        except NightUnfinished as unfinished:
            return unfinished.night
    return ended
