"""Rating pages of a session over a published run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from gradebook.tasks.ratings.rating_queue import Queue
from gradebook.tasks.ratings.rating_session import opened_session
from gradebook.tasks.serving.guard import Tokens
from gradebook.tasks.serving.rating_page import rating_app
from tests.support.served_ratings import HOST, ORIGIN, RUN, Served, rated_run


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    lake = rated_run(tmp_path)
    with opened_session(lake, RUN, queue=Queue.random, count=6, overlap=2) as session:
        tokens = Tokens()
        app = rating_app(session, tokens, (HOST,), lambda text: None)
        yield Served(lake, session, TestClient(app, base_url=ORIGIN, follow_redirects=False), tokens)
