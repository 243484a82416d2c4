"""The ledger: journals are settled once, whatever happened to their writers."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import LakeError
from gradebook.rubrics.model.judgments import JUDGMENT_SCHEMA
from gradebook.tasks.judging.replies.journal import Journal, settled_journals
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import connect, prepare_lake
from gradebook.tasks.ledger.ledger import run_judgments, settle_journals

JUDGMENT = dict.fromkeys(JUDGMENT_SCHEMA.names) | {
    "run_id": "r",
    "request_key": "k",
    "output_id": "o",
    "criterion_id": "c",
    "judge": "m",
    "replicate": 0,
    "status": "scored",
    "level_id": "good",
    "prompt_digest": "p",
    "prompt_tokens": 10,
    "cached_tokens": 0,
    "completion_tokens": 2,
    "cost_usd": 0.25,
    "latency_ms": 1.0,
    "attempts": 1,
    "asked_at": datetime(2026, 11, 20, tzinfo=UTC),
}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    found = find_lake(f"sqlite:{tmp_path}/catalog.sqlite")
    prepare_lake(found)
    return found


def write_journal(lake: Lake, *judgment_ids: str) -> Path:
    with Journal(lake.journal_folder, "r") as journal:
        for judgment_id in judgment_ids:
            journal.append(JUDGMENT | {"judgment_id": judgment_id})
    return journal.path


def ledger(lake: Lake) -> list[str]:
    with connect(lake, read_only=True) as connection:
        return [row[0] for row in connection.execute("select judgment_id from judgments order by 1").fetchall()]


def test_a_settled_journal_is_in_the_ledger_and_gone(lake):
    path = write_journal(lake, "a", "b")
    assert settle_journals(lake) == 2
    assert ledger(lake) == ["a", "b"]
    assert not path.exists()


def test_a_journal_settled_twice_adds_nothing(lake):
    path = write_journal(lake, "a", "b")
    content = path.read_bytes()
    settle_journals(lake)
    path.write_bytes(content)  # as if the process had died between its commit and the deletion
    assert settle_journals(lake) == 0
    assert ledger(lake) == ["a", "b"]


def test_a_journal_whose_writer_lives_is_left_alone(lake):
    with Journal(lake.journal_folder, "r") as journal:
        journal.append(JUDGMENT | {"judgment_id": "a"})
        assert settle_journals(lake) == 0
        assert journal.path.exists()


def test_a_journal_that_someone_else_settles_is_left_to_them(lake):
    for judgment_id in ("a", "b"):
        write_journal(lake, judgment_id)
    sweep = settled_journals(lake.journal_folder)
    held = next(sweep)
    assert settle_journals(lake) == 1
    assert list(lake.journal_folder.iterdir()) == [held]
    assert list(sweep) == []  # it passes by the one that is gone


def test_a_long_journal_is_settled_a_batch_at_a_time(lake, monkeypatch):
    monkeypatch.setattr("gradebook.tasks.ledger.ledger.BATCH_ROWS", 2)
    path = write_journal(lake, "a", "b", "c", "d", "e")
    path.write_bytes(path.read_bytes() + b"{}\n")
    with pytest.raises(LakeError, match=r"\.jsonl:6: "):
        settle_journals(lake)
    assert ledger(lake) == ["a", "b", "c", "d"]  # the batch of the broken line is not there, and the journal stays
    assert path.exists()


def test_a_torn_last_line_loses_nothing_before_it(lake):
    path = write_journal(lake, "a", "b")
    path.write_bytes(path.read_bytes()[:-20])
    settle_journals(lake)
    assert ledger(lake) == ["a"]


def test_a_run_reads_what_it_paid_for(lake):
    write_journal(lake, "a")
    settle_journals(lake)
    (judgments,) = run_judgments(lake, "r")
    assert judgments.schema == JUDGMENT_SCHEMA
    assert list(run_judgments(lake, "another")) == []
