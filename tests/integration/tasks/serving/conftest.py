"""Rating pages of a session over a published run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gradebook.tasks.ratings.rating_queue import Queue
from gradebook.tasks.ratings.rating_session import opened_session
from tests.support.served_ratings import RUN, Served, rated_run


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    lake = rated_run(tmp_path)
    with opened_session(lake, RUN, queue=Queue.random, count=6, overlap=2) as session:
        yield Served.of(lake, session)
