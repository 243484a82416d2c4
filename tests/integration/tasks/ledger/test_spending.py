"""What `gradebook cost` sums up, from a lake with given rows."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.verdicts import JUDGMENT_SCHEMA
from gradebook.tasks.judging.replies.journal import Journal
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit, prepare_lake
from gradebook.tasks.ledger.spending import CostSum, read_spending
from tests.support.new_lakes import write_copy
from tests.support.nightly import matrix

NIGHT, NEXT_NIGHT = datetime(2026, 11, 1, 23, 59, tzinfo=UTC), datetime(2026, 11, 2, 0, 1, tzinfo=UTC)
JUDGMENT: dict[str, Any] = dict.fromkeys(JUDGMENT_SCHEMA.names) | {
    "run_id": "r1",
    "request_key": "k",
    "output_id": "o",
    "criterion_id": "tone",
    "judge": "small",
    "replicate": 0,
    "status": "scored",
    "prompt_digest": "p",
    "prompt_tokens": 100,
    "cached_tokens": 40,
    "completion_tokens": 10,
    "written_tokens": 30,
    "reasoning_tokens": 6,
    "cost_usd": 0.25,
    "latency_ms": 1.0,
    "attempts": 1,
    "asked_at": NIGHT,
}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake with a published run of the judge `small` that took two judgments from the ledger."""
    write_copy(tmp_path, publish_run)
    return find_lake(f"sqlite:{tmp_path}/catalog.sqlite")


def publish_run(folder: Path) -> None:
    lake = find_lake(f"sqlite:{folder}/catalog.sqlite")
    prepare_lake(lake)

    def body(connection: Any, _version: int) -> None:
        connection.execute(
            "insert into runs (run_id, status, judge, finished_at) values ('r1', 'published', 'small', ?)", [NIGHT]
        )
        connection.execute("insert into verdicts (run_id, request_key) values ('r1', 'k'), ('r1', 'k'), ('r1', null)")
        connection.execute(
            "insert into stage_costs (run_id, stage, criterion_id, replayed_count, saved_usd) "
            "values ('r1', 'score', 'tone', 2, 0.5), ('r1', 'plan', null, 0, 0)"
        )

    commit(lake, "a run", body)


def add(lake: Lake, *changes: dict[str, Any]) -> None:
    rows = [JUDGMENT | {"judgment_id": str(n)} | change for n, change in enumerate(changes)]

    def body(connection: Any, _version: int) -> None:
        connection.register("added", pa.Table.from_pylist(rows, JUDGMENT_SCHEMA))
        connection.execute("insert into judgments by name from added")

    commit(lake, "judgments", body)


def test_the_total_has_what_was_billed_and_what_was_saved(lake: Lake):
    add(lake, {}, {"attempts": 3})
    assert read_spending(lake, "r1").total == CostSum(None, 2, 4, 200, 80, 20, 60, 12, 0.5, 0, 0, 2, 0.5, 0)


def test_a_lake_of_an_earlier_gradebook_has_no_counts_of_thought(lake: Lake):
    add(lake, {})

    def body(connection: Any, _version: int) -> None:
        for column in ("written_tokens", "reasoning_tokens"):
            connection.execute(f"alter table judgments drop column {column}")

    commit(lake, "an earlier gradebook", body)
    total = read_spending(lake, "r1").total
    assert (total.judgment_count, total.completion_tokens, total.written_tokens, total.reasoning_tokens) == (
        1,
        10,
        0,
        0,
    )


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        *matrix(
            [
                ("criterion", {"tone": (0.25, 0.5), "depth": (1.0, 0), "(feedback)": (0.125, 0)}),
                ("judge", {"small": (0.25, 0.5), "big": (1.125, 0)}),
                ("day", {"2026-11-01": (0.25, 0.5), "2026-11-02": (1.125, 0)}),
            ]
        ),
        ("stage", {"score": (1.25, 0.5), "feedback": (0.125, 0)}),
    ],
)
def test_costs_are_summed_by_each_part(lake: Lake, part: Any, expected: dict[str, tuple[float, float]]):
    dear = {"judge": "big", "asked_at": NEXT_NIGHT}
    feedback = {"criterion_id": "(feedback)", "cost_usd": 0.125} | dear
    add(lake, {}, {"criterion_id": "depth", "cost_usd": 1.0} | dear, feedback)
    sums = read_spending(lake).parts[part]
    assert {each.part: (each.billed_usd, each.saved_usd) for each in sums} == expected


@pytest.mark.nightly
def test_an_unknown_price_is_not_a_price_of_0(lake: Lake):
    add(lake, {"cost_usd": None}, {"cost_usd": None})
    spending = read_spending(lake)
    assert (spending.total.billed_usd, spending.total.prompt_tokens) == (None, 200)
    assert "price unknown for 2 judgments: tokens are counted" in spending.notes


def test_verdicts_by_one_judgment_are_told(lake: Lake):
    add(lake, {})
    told = "1 verdict shares a judgment with others: an equal prompt is asked and billed once"
    assert list(read_spending(lake, "r1").notes) == [told]


def test_known_costs_are_summed_beside_unknown_ones(lake: Lake):
    add(lake, {}, {"cost_usd": None})
    assert (read_spending(lake).total.billed_usd, read_spending(lake).total.unpriced_count) == (0.25, 1)


@pytest.mark.parametrize("tokens", [None, *matrix([0])])  # an earlier gradebook wrote 0
def test_a_reply_that_does_not_say_its_tokens_is_told_apart(lake: Lake, tokens: int | None):
    add(lake, {"cost_usd": None} | dict.fromkeys(("prompt_tokens", "cached_tokens", "completion_tokens"), tokens))
    spending = read_spending(lake)
    assert (spending.total.unpriced_count, spending.total.uncounted_count, spending.total.billed_usd) == (0, 1, None)
    assert "cost unknown of 1 judgment: the endpoint reported no tokens, or too few" in spending.notes


def test_what_the_budget_counted_beyond_the_ledger_is_told(lake: Lake):
    add(lake, {})
    folder = lake.root / "runs" / "r1"
    folder.mkdir(parents=True)
    lines = ('{"ticket":1,"cost_usd":0.25}', '{"ticket":2,"worst_usd":0.75}')  # the second was out when it was killed
    (folder / "budget.jsonl").write_text("\n".join(lines) + "\n")
    assert read_spending(lake, "r1").possible_usd == 0.75


def test_all_judgments_of_a_pack_are_billed_and_its_request_counts_once(lake: Lake):
    add(lake, {"prompt_bytes": 400}, {"attempts": 0, "prompt_bytes": 400})
    total = read_spending(lake).total
    assert (total.judgment_count, total.request_count, total.billed_usd) == (2, 1, 0.5)


def test_recorded_replies_are_neither_billed_nor_counted(lake: Lake):
    add(lake, {"attempts": 0, "cost_usd": 0.0})
    assert read_spending(lake).total.judgment_count == 0


def test_other_runs_and_earlier_days_are_left_out(lake: Lake):
    add(lake, {}, {"run_id": "r2", "asked_at": NEXT_NIGHT, "cost_usd": 1.0})
    assert read_spending(lake, "r1").total.billed_usd == 0.25
    since = read_spending(lake, since=datetime(2026, 11, 2, tzinfo=UTC)).total
    assert (since.billed_usd, since.saved_usd) == (1.0, 0)


@pytest.mark.nightly
def test_criteria_of_rows_are_one_line(lake: Lake):
    add(lake, {"criterion_id": "own-1"}, {"criterion_id": "own-2"})

    def body(connection: Any, _version: int) -> None:
        connection.execute("insert into case_criteria (run_id, criterion_id) values ('r1', 'own-1'), ('r1', 'own-2')")

    commit(lake, "own criteria", body)
    assert {each.part: each.billed_usd for each in read_spending(lake).parts["criterion"]} == {"(own)": 0.5, "tone": 0}


@pytest.mark.nightly
def test_a_lake_without_judgments_has_costs_of_nothing(tmp_path: Path):
    found = find_lake(f"sqlite:{tmp_path}/catalog.sqlite")
    prepare_lake(found)
    assert read_spending(found).total == CostSum(None)


def test_an_unknown_run_is_refused(lake: Lake):
    with pytest.raises(InputError, match="found no 'r9'"):
        read_spending(lake, "r9")


def test_replies_that_are_still_in_a_journal_are_told(lake: Lake):
    with Journal(lake.journal_folder, "r1") as journal:
        journal.append(JUDGMENT | {"judgment_id": "j"})
    assert list(read_spending(lake).notes) == ["1 journal of replies not counted yet: the next run counts them"]
