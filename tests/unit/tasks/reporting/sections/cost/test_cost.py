"""Section "Cost": sums, unknown prices and the forecast."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from gradebook.rubrics.model.verdicts import JUDGMENT_SCHEMA
from gradebook.rubrics.text.wording import count_words, price_words, seconds_words
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.rows import Row, read_rows
from gradebook.tasks.lake.schema import make_tables, make_views
from gradebook.tasks.planning.estimates import QUANTILE
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.reporting.report_source import ReportSource
from gradebook.tasks.reporting.sections.cost import CostContents, Forecast, read_cost
from tests.support.law_over import law_over

NOW = datetime(2026, 11, 1, tzinfo=UTC)
Read = Callable[..., CostContents]
Names = tuple[str, ...]


def judgment(number: int, cost_usd: float | None = 0.01, **changes: Any) -> Row:
    """Row of a paid reply to a question of its own."""
    row = dict.fromkeys(JUDGMENT_SCHEMA.names) | {"judgment_id": str(number), "request_key": f"k{number}"}
    row |= {"run_id": "r", "output_id": f"o{number}", "criterion_id": "tone", "judge": "small", "status": "scored"}
    row |= {"replicate": 0, "prompt_digest": "p", "latency_ms": 1.0, "attempts": 1, "asked_at": NOW}
    return row | {"prompt_tokens": 100, "cached_tokens": 25, "completion_tokens": 10, "cost_usd": cost_usd} | changes


def stage(name: str, criterion_id: str | None = None, **changes: Any) -> Row:
    counts = ("row_count", "request_count", "replayed_count", "prompt_tokens", "cached_tokens", "completion_tokens")
    row = {"run_id": "r", "stage": name, "criterion_id": criterion_id, "wall_s": 2.0, "cpu_s": 1.0, "cost_usd": 0.0}
    return row | {"saved_usd": 0.0} | dict.fromkeys(counts, 0) | changes


@pytest.fixture(scope="module")
def tables() -> Iterator[duckdb.DuckDBPyConnection]:
    """The lake's tables and views, in memory."""
    with duckdb.connect() as connection:
        make_tables(connection)
        make_views(connection)
        yield connection


@pytest.fixture
def read(tables: duckdb.DuckDBPyConnection, tmp_path: Path) -> Read:
    """Read the section of a run with these stages and judgments, and verdicts with these request keys."""

    def call(
        stages: list[Row], judgments: list[Row], judge: str | None = "small", keys: Names = (), open_keys: Names = ()
    ) -> CostContents:
        row = {"run_id": "r", "version": 1, "status": "published", "rubric_id": "reply", "judge": judge}
        row |= {"output_count": 10, "finished_at": NOW}
        wanted = keys or tuple(judgment["request_key"] for judgment in judgments)
        verdicts = [
            {"run_id": "r", "criterion_id": "tone", "request_key": key} | status(key in open_keys) for key in wanted
        ]
        fill(tables, runs=[row], stage_costs=stages, judgments=judgments, verdicts=verdicts)
        costs = read_rows(tables, "from stage_costs")
        summary = RunSummary(row, (), (), costs, (), (), False, ())
        lake = find_lake(f"sqlite:{tmp_path}/catalog.sqlite")  # never opened
        contents = read_cost(ReportSource(tables, lake, summary, (), None, None, (), ()))
        assert contents is not None
        return contents

    return call


def status(is_open: bool) -> Row:
    return {"status": "unscored" if is_open else "scored"}


def fill(connection: duckdb.DuckDBPyConnection, **rows: list[Row]) -> None:
    for table, found in rows.items():
        connection.execute(f"delete from {table}")
        if found:
            connection.register("given", pa.Table.from_pylist(found))
            connection.execute(f"insert into {table} by name from given")
            connection.unregister("given")


def paid(count: int, cost_usd: float = 0.01) -> list[Row]:
    return [judgment(number, cost_usd) for number in range(count)]


def forecast(contents: CostContents) -> Forecast:
    assert contents.forecast is not None
    return contents.forecast


def test_billed_and_saved_cost_add_up_to_the_cost_without_the_ledger(read: Read):
    stages = [stage("score", "tone", replayed_count=3, saved_usd=0.06, request_count=2)]
    contents = read(stages, paid(2))
    assert (
        contents.sentence
        == "2 judgments cost $0.0200; 3 more judgments came from the ledger, which saved $0.0600: 75.0% of $0.0800."
    )
    numbers = dict(contents.numbers)
    assert [numbers[name] for name in ("Billed", "Saved by the ledger", "Without the ledger", "Per output")] == [
        *("$0.0200", "$0.0600", "$0.0800"),
        "$0.00200",
    ]
    assert (numbers["Tokens in"], numbers["Cached"]) == ("200", "25.0%")


def test_an_unknown_price_is_shown_as_unknown_not_as_0(read: Read):
    contents = read([stage("score", "tone", cost_usd=None)], [judgment(1, None), judgment(2, None)])
    assert contents.sentence.startswith("2 judgments were paid for, at an unknown price")
    assert dict(contents.numbers)["Billed"] == dict(contents.numbers)["Without the ledger"] == "unknown"
    assert contents.notes == ("Price unknown for 2 judgments: tokens are counted.",)
    assert forecast(contents).sentences[1].endswith("the cost is unknown, because a price is unknown.")
    assert contents.figures[0].sentence.endswith("shown in place of dollars because no price is known.")


def test_a_sum_with_an_unknown_price_is_a_lower_bound(read: Read):
    contents = read([stage("score", "tone", cost_usd=None)], [judgment(1, 0.5), judgment(2, None)])
    assert dict(contents.numbers)["Billed"] == "at least $0.500"
    assert contents.figures[0].table.rows[0][1] == "at least $0.500"


def test_without_a_judge_cpu_time_replaces_dollars(read: Read):
    contents = read([stage("ingest"), stage("score", "length", cpu_s=3.0)], [], judge=None)
    assert (
        contents.sentence
        == "No judge was asked, so nothing was billed; the work over 10 outputs took 4.00 s of CPU time."
    )
    assert [figure.title for figure in contents.figures] == ["CPU time by criterion", "CPU time by stage"]
    assert contents.figures[1].sentence == "Most CPU time went to scoring: 3.00 s, 75.0% of 4.00 s."
    assert (contents.forecast, contents.command) == (None, None)


def test_recorded_replies_cost_nothing_and_the_page_names_the_command_that_estimates_a_judge(read: Read):
    contents = read([stage("score", "tone")], [judgment(1, 0.0, attempts=0)], judge="replay:replies.jsonl")
    assert (dict(contents.numbers)["Billed"], contents.forecast) == ("$0", None)
    assert contents.command.startswith("gradebook cost r --judge MODEL --lake sqlite:")


def test_the_same_outputs_need_no_new_judgment_and_new_outputs_cost_as_much_as_these(read: Read):
    found = forecast(read([stage("score", "tone", request_count=25)], paid(25)))
    assert found.sentences == (
        "The same outputs again: no new judgment, $0; 25 judgments from the ledger.",
        (
            "10 new outputs: about 25 judgments, about $0.250; in 4 of 5 cases between $0.250 and $0.250, "
            "for outputs like these."
        ),
    )


def test_the_range_of_a_forecast_is_that_of_a_sum_of_questions(read: Read):
    # Half cost 0.01, half 0.03: their sd is sqrt(20 / 19) * 0.01. 20 new after 20 past ones: sqrt(20 + 20) sd.
    judgments = [judgment(number, 0.01 if number % 2 else 0.03) for number in range(20)]
    found = forecast(read([stage("score", "tone", request_count=20)], judgments))
    off = QUANTILE * (20 / 19) ** 0.5 * 0.01 * 40**0.5
    assert (found.new_usd, found.low_usd, found.high_usd) == pytest.approx((0.4, 0.4 - off, 0.4 + off))


def test_too_few_replies_give_no_range(read: Read):
    found = forecast(read([stage("score", "tone", request_count=3)], paid(3)))
    assert (found.new_usd, found.low_usd) == (pytest.approx(0.03), None)
    assert found.sentences[1].endswith("too few replies for a range.")


def test_judgments_without_a_usable_reply_are_requested_again(read: Read):
    found = forecast(read([stage("score", "tone", request_count=4)], paid(4), open_keys=("k1",)))
    assert (found.recorded_count, found.open_count, found.open_usd) == (3, 1, pytest.approx(0.01))
    assert found.sentences[0].startswith("The same outputs again: 1 judgment without a usable reply, requested again,")


def test_outputs_with_the_same_text_are_paid_for_once(read: Read):
    # Four verdicts took 0.04 from the ledger for two questions: two new questions cost 0.02.
    stages = [stage("score", "tone", replayed_count=4, saved_usd=0.04)]
    found = forecast(read(stages, [], keys=("k1", "k1", "k2", "k2")))
    assert (found.new_count, found.new_usd) == (2, pytest.approx(0.02))


def test_the_most_expensive_criterion_is_named_and_its_bar_has_both_parts(read: Read):
    stages = [stage("score", "tone", replayed_count=1, saved_usd=0.01), stage("score", "depth")]
    figure = read(stages, [judgment(1), judgment(2, 0.06, criterion_id="depth")]).figures[0]
    assert (
        figure.sentence
        == "The highest cost is that of depth: $0.0600, 75.0% of the $0.0800 that 2 criteria cost, billed and saved."
    )
    assert 'data-tip="tone: $0.0100 saved by the ledger"' in str(figure.svg)


def test_with_an_unknown_price_no_share_is_shown(read: Read):
    judgments = [judgment(0, 1.0), *(judgment(number, None, criterion_id="depth") for number in range(1, 6))]
    figure = read([stage("score", "tone"), stage("score", "depth", cost_usd=None)], judgments).figures[0]
    assert (
        figure.sentence
        == "The highest known cost is that of tone: $1.00, of at least $1.00 that 2 criteria cost, billed and saved."
    )
    assert 'data-tip="depth: unknown billed"' in str(figure.svg)


def test_criteria_beyond_the_room_of_a_picture_are_combined_into_one_bar(read: Read):
    figure = read([stage("score", f"c{n}") for n in range(50)], [], judge=None).figures[0]
    assert "39 others" in str(figure.svg)
    assert len(figure.table.rows) == 50


@law_over(
    ("value", "words"),
    [(None, "unknown"), (0, "$0"), (0.000123, "$0.000123"), (0.9999, "$1.00"), (12.34, "$12.3"), (4321, "$4,321")],
)
def test_prices_have_three_digits(value: float | None, words: str):
    assert price_words(value) == words


def test_durations_and_counts_have_three_digits():
    assert [seconds_words(value) for value in (0, 0.0123, 90, 600, 9000)] == [
        "0 s",
        "0.0123 s",
        "90.0 s",
        "10.0 min",
        "2.50 h",
    ]
    assert [count_words(value) for value in (950, 12_345, 4_560_000)] == ["950", "12.3k", "4.56M"]
