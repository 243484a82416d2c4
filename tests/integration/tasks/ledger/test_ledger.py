"""The ledger: journals are settled once, whatever happened to their writers."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gradebook.rubrics.model.verdicts import JUDGMENT_SCHEMA
from gradebook.tasks.judging.replies.journal import Journal, settled_journals
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit, connect
from gradebook.tasks.ledger.ledger import (
    answering_models,
    journaled_judgments,
    run_judgments,
    settle_journals,
    unreadable_replies,
)
from tests.support.nightly import nightly

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

EMPTY_ROW = "insert into judgments (run_id) values ('mine')"


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


def test_a_row_without_an_id_keeps_no_reply_out_of_the_ledger(lake):
    commit(lake, "a row of a user's own", lambda connection, _version: connection.execute(EMPTY_ROW) and None)
    write_journal(lake, "a")
    assert settle_journals(lake) == 1


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
    assert settle_journals(lake) == 5
    assert ledger(lake) == ["a", "b", "c", "d", "e"]


def harmed(harm: str, line: bytes) -> bytes:
    plain = b"{" + line.partition(b",")[2]  # as earlier versions wrote it
    return {
        "cut in the middle": line[:40] + b"\n",
        "zeros": b"\0" * 99 + b"\n",
        "a cost that is none": line.replace(b'"cost_usd":0.5', b'"cost_usd":1e308'),
        "another level": line.replace(b'"level_id":"good"', b'"level_id":"gold"'),
        "no checksum, a cost that is none": plain.replace(b":0.5", b":1e308"),
        "no checksum, a negative cost": plain.replace(b":0.5", b":-0.5"),
        "no checksum, a wrong type": plain.replace(b'"good"', b"[1]"),
        "no checksum, a year of no calendar": plain.replace(b'"asked_at":"2026', b'"asked_at":"0000'),
        "no checksum, a null character": plain.replace(b'"rationale":null', b'"rationale":"a\\u0000b"'),
        "no checksum, tokens beyond any sum": plain.replace(b'"prompt_tokens":10', b'"prompt_tokens":%d' % 2**62),
        "no checksum, probabilities of no levels": plain.replace(b'"distribution":null', b'"distribution":"{"'),
        "no checksum, probabilities above 1": plain.replace(b'"distribution":null', rb'"distribution":"{\"good\":7}"'),
    }[harm]


@pytest.mark.parametrize(
    "harm",
    [
        "cut in the middle",
        *nightly(
            [
                "zeros",
                "a cost that is none",
                "another level",
                "no checksum, a cost that is none",
                "no checksum, a negative cost",
                "no checksum, a wrong type",
                "no checksum, a year of no calendar",
                "no checksum, a null character",
                "no checksum, tokens beyond any sum",
                "no checksum, probabilities of no levels",
                "no checksum, probabilities above 1",
            ]
        ),
    ],
)
def test_a_broken_line_is_set_aside_and_the_others_reach_the_ledger(lake, harm):
    with Journal(lake.journal_folder, "r") as journal:
        for judgment_id in ("a", "b", "c"):
            journal.append(JUDGMENT | {"judgment_id": judgment_id, "level_id": "good", "cost_usd": 0.5})
    lines = journal.path.read_bytes().splitlines(keepends=True)
    broken = harmed(harm, lines[1])
    assert broken != lines[1]
    journal.path.write_bytes(lines[0] + broken + lines[2])
    notes: list[str] = []
    assert settle_journals(lake, notes) == 2
    assert ledger(lake) == ["a", "c"]
    aside = Path(f"{journal.path}.broken")
    assert list(lake.journal_folder.iterdir()) == [aside]
    assert aside.read_bytes() == broken
    assert notes[0].startswith(f"1 line of a journal is no judgment and set aside in {aside}: {journal.path}:2: found ")


def test_a_broken_line_of_one_journal_does_not_block_another(lake):
    lake.journal_folder.mkdir(exist_ok=True)
    (lake.journal_folder / "dead.1.a.jsonl").write_text("no judgment\n")
    write_journal(lake, "a")
    assert settle_journals(lake) == 1
    assert settle_journals(lake) == 0


def test_a_plan_leaves_broken_lines_out(lake):
    path = write_journal(lake, "a")
    path.write_bytes(path.read_bytes() + b"no judgment\n")
    assert journaled_judgments(lake)["judgment_id"].to_pylist() == ["a"]
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


def test_the_models_that_answered_a_run_are_listed_once(lake):
    with Journal(lake.journal_folder, "r") as journal:
        for number, model in enumerate(("m-2026", "other", "other", "", None)):
            journal.append(JUDGMENT | {"judgment_id": f"{number}", "judge": "m", "model_returned": model})
    settle_journals(lake)
    assert answering_models(lake, "r") == [("m", "m-2026"), ("m", "other")]
    assert answering_models(lake, "another") == []


def test_the_replies_that_cant_be_read_are_counted_per_judge(lake):
    replies = [("m", "scored", "{}"), ("m", "parse_error", "Well."), ("m", "truncated", "Half"), ("n", "scored", "{}")]
    replies.append(("m", "scored", "Sure: {}"))  # read, and no JSON as it stands
    with Journal(lake.journal_folder, "r") as journal:
        for number, (judge, status, reply) in enumerate(replies):
            row = {"judgment_id": f"{number}", "judge": judge, "status": status, "reply": reply}
            journal.append(JUDGMENT | row | {"asked_at": datetime(2026, 1, 1, 0, number, tzinfo=UTC)})
    settle_journals(lake)
    assert unreadable_replies(lake, "r", ["parse_error", "truncated"]) == [
        {
            "judge": "m",
            "reply_count": 4,
            "unreadable_count": 2,
            "loose_count": 1,
            "first_reply": "Well.",
            "first_status": "parse_error",
            "first_rationale": None,
        }
    ]
