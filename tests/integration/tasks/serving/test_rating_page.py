"""Rating pages over a real lake: who sees what, what is saved, what is refused."""

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.agreement.calibration import calibrate_run
from gradebook.tasks.agreement.published_run import measure_run
from gradebook.tasks.agreement.raters import compare_raters
from gradebook.tasks.lake.connections import commit, connect
from gradebook.tasks.ratings.export_ratings import exported_ratings
from gradebook.tasks.ratings.rating_queue import Queue, choose_outputs
from gradebook.tasks.ratings.rating_session import opened_session
from gradebook.tasks.ratings.rating_store import Mark
from tests.support.nightly import nightly
from tests.support.served_ratings import HOST, ORIGIN, RUN, Served, rated_run


def ratings_in(served: Served) -> list[tuple[object, ...]]:
    with connect(served.lake, read_only=True) as connection:
        return connection.execute(
            "select rater, level_id, score, selection, inclusion_rate from ratings order by rated_at"
        ).fetchall()


@pytest.mark.nightly
def test_a_rating_of_the_page_is_a_rating_in_the_lake(served: Served):
    served.enter("anna")
    assert served.client.get("/").headers["location"] == "/sheet/1"
    assert served.submit(1, "good") == 303
    assert served.session.store_marks() == 1
    assert ratings_in(served) == [("anna", "good", 1.0, "random", 0.6)]  # 6 of 10 outputs


@pytest.mark.nightly
def test_the_time_on_a_sheet_is_known_and_haste_is_named(served: Served):
    for rater, seconds in (("anna", "1.5"), ("ben", "41.25")):
        served.enter(rater)
        served.client.get("/")
        served.submit(1, "good", spent_s=seconds)
    served.submit(1, "bad", version=1, spent_s="10.75")  # ben looks again
    served.session.store_marks()
    anna, ben = compare_raters(served.lake, RUN).paces
    assert (anna.sheet_count, anna.median_sheet_s, anna.fast_sheet_count) == (1, 1.5, 1)
    assert (ben.sheet_count, ben.minutes, ben.fast_sheet_count) == (2, 52 / 60, 0)


def test_a_note_on_what_does_not_apply_is_kept_and_comes_back(served: Served):
    served.enter("anna")
    served.client.get("/")
    assert served.submit(1, "n/a", **{"note.tone": "in Danish"}) == 303
    assert served.session.store_marks() == 1
    (row,) = exported_ratings(served.lake, RUN, "jsonl")
    assert (row["level_id"], row["score"], row["notes"]) == ("n/a", None, "in Danish")
    (sheet,) = exported_ratings(served.lake, RUN, "potato")
    assert sheet["rubric"] == {"criteria_ratings": {}, "notes": "in Danish", "weighted_score": None}


@pytest.mark.nightly
def test_a_revised_rating_counts_and_the_earlier_one_stays(served: Served):
    served.enter("anna")
    served.client.get("/")
    served.submit(1, "good")
    assert served.session.store_marks() == 1
    assert served.submit(1, "bad", version=1) == 303
    assert served.session.store_marks() == 1
    assert [row[1] for row in ratings_in(served)] == ["good", "bad"]


def test_ratings_that_reached_the_lake_before_a_crash_are_not_stored_twice(served: Served, monkeypatch):
    served.enter("anna")
    served.client.get("/")
    served.submit(1, "good")
    with monkeypatch.context() as killed:  # between the lake's commit and the note of it
        killed.setattr(type(served.session.store), "set_stored", lambda *_: None)
        served.session.store_marks()
    served.session.store_marks()
    assert len(ratings_in(served)) == 1


def test_a_rating_that_a_killed_session_left_is_stored_although_the_text_changed(tmp_path: Path):
    lake, options = rated_run(tmp_path), {"queue": Queue.random, "count": 1, "overlap": 1}
    with suppress(KeyboardInterrupt), opened_session(lake, RUN, **options) as session:
        sheet = session.store.next_sheet("anna", 0.0)
        session.store.submit(sheet, {}, [Mark("tone", "good", 1.0, None)], datetime.now(UTC), 1.0)
        raise KeyboardInterrupt
    commit(lake, "texts", lambda connection, _version: connection.execute("update outputs set output = 'new'"))
    with opened_session(lake, RUN, **options), connect(lake, read_only=True) as connection:
        stored = connection.execute("select output_id, level_id from ratings").fetchall()
    assert stored == [(sheet.output_id, "good")]


def test_a_sheet_with_gaps_is_not_submitted_and_keeps_its_note(served: Served):
    served.enter("anna")
    served.client.get("/")
    sent = {"version": "0", "action": "submit", "note.tone": "odd"}
    page = served.client.post("/sheet/1", data=sent, headers={"origin": ORIGIN})
    assert page.status_code == 422
    assert "not rated yet" in page.text
    assert ">odd</textarea>" in page.text


def test_a_page_from_before_a_submission_saves_nothing_and_says_so(served: Served):
    served.enter("anna")
    served.client.get("/")
    served.submit(1, "good")
    assert served.submit(1, "bad", version=0) == 409
    assert [mark["level_id"] for mark in served.session.store.open_marks()] == ["good"]


def test_pages_show_texts_as_texts_and_neither_models_nor_other_raters(served: Served):
    served.enter("anna")
    served.client.get("/")
    page = served.client.get("/sheet/1").text
    assert "&lt;script&gt;alert(1)" in page
    assert page.count("<script>") == 1
    assert "<img" not in page
    assert "[U+202E]" in page
    assert ">m<" not in page


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://evil.example"}, 403),
        *nightly(
            [
                ({"origin": "null"}, 403),
                ({}, 403),
                ({"origin": ORIGIN, "host": "evil.example"}, 421),
                ({"origin": ORIGIN, "content-type": "application/json"}, 415),
            ]
        ),
        ({"origin": ORIGIN}, 303),
    ],
)
def test_only_a_page_of_the_server_can_save(served: Served, headers: dict[str, str], status: int):
    served.enter("anna")
    served.client.get("/")
    sent = "version=0&action=submit&level.tone=good"
    headers = {"content-type": "application/x-www-form-urlencoded"} | headers
    assert served.client.post("/sheet/1", content=sent, headers=headers).status_code == status
    assert len(served.session.store.open_marks()) == (status == 303)


def test_without_a_token_and_with_that_of_another_nothing_is_seen(served: Served):
    assert served.client.get("/").status_code == 403
    assert served.client.get("/sheet/1").status_code == 403
    served.enter("anna")
    served.client.get("/")
    served.enter("ben")
    assert served.client.get("/sheet/1").status_code == 404
    assert served.submit(1, "bad") == 404


def test_many_wrong_tokens_are_stopped_for_a_minute(served: Served):
    statuses = [served.client.get(f"/t/{place}").status_code for place in range(22)]
    assert (statuses[0], statuses[-1]) == (403, 429)


def test_a_body_beyond_the_limit_is_refused(served: Served):
    served.enter("anna")
    served.client.get("/")
    headers = {"origin": ORIGIN, "content-type": "application/x-www-form-urlencoded"}
    assert served.client.post("/sheet/1", content=b"a" * 1_000_001, headers=headers).status_code == 413


@pytest.mark.parametrize("position", ["9" * 30, *nightly(["9" * 5_000, "-1", "x"])])
def test_a_position_that_no_queue_has_is_not_found(served: Served, position: str):
    served.enter("anna")
    for path in ("sheet", "back"):
        assert served.client.get(f"/{path}/{position}").status_code == 404
    assert (
        served.client.post(f"/sheet/{position}", data={"version": "0"}, headers={"origin": ORIGIN}).status_code == 404
    )


@pytest.mark.nightly
def test_quotes_of_half_characters_and_nulls_are_stored_without_them(served: Served):
    served.enter("anna")
    served.client.get("/")
    assert served.submit(1, "good", **{"evidence.tone": '["half \\ud800", "null \\u0000"]'}) == 303
    assert served.session.store_marks() == 1
    with connect(served.lake, read_only=True) as connection:
        assert connection.execute("select evidence from ratings").fetchall() == [('["half ?", "null "]',)]


def test_every_page_forbids_scripts_of_others_and_is_not_stored(served: Served):
    page = served.client.get("/t/x")
    assert page.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    served.enter("anna")
    cookie = served.client.get(f"/t/{served.tokens.issue('anna')}").headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


@pytest.mark.nightly
def test_a_larger_random_queue_begins_with_the_smaller_one(served: Served):
    with connect(served.lake, read_only=True) as connection:
        small, large = (choose_outputs(connection, RUN, Queue.random, count) for count in (4, 100))
    assert [each.output_id for each in large][:4] == [each.output_id for each in small]
    assert (len(large), large[0].inclusion_rate, small[0].inclusion_rate) == (10, 1.0, 0.4)


def test_the_disputed_queue_has_what_rater_and_judge_score_differently(served: Served):
    with connect(served.lake, read_only=True) as connection, pytest.raises(InputError, match="raters and judge agree"):
        choose_outputs(connection, RUN, Queue.disputed, 10)
    served.enter("anna")
    judged = {}
    for position in range(1, 7):
        served.client.get("/")
        served.submit(position, "good")
    for mark in served.session.store.open_marks():
        judged[mark["output_id"]] = int(mark["output_id"][1:]) % 2
    served.session.store_marks()
    with connect(served.lake, read_only=True) as connection:
        found = {each.output_id for each in choose_outputs(connection, RUN, Queue.disputed, 10)}
    assert found == {output_id for output_id, score in judged.items() if score == 0}


@pytest.mark.nightly
def test_the_uncertain_queue_draws_every_output_with_a_probability_that_grows_with_the_doubt(served: Served):
    def tell(connection: Any, _version: int) -> None:
        connection.execute("update verdicts set request_key = output_id")
        for output_id, chances in {
            "o1": '{"bad":0.4,"good":0.6}',
            "o2": '{"good":0.9,"bad":0.1}',
            "o3": '{"bad":1}',
        }.items():
            connection.execute("insert into judgments (request_key, distribution) values (?, ?)", [output_id, chances])

    commit(served.lake, "doubts", tell)
    with connect(served.lake, read_only=True) as connection:
        found = choose_outputs(connection, RUN, Queue.uncertain, 10)
        shorter = choose_outputs(connection, RUN, Queue.uncertain, 3)
        every = {each.output_id for each in choose_outputs(connection, RUN, Queue.random, 10)}
    assert {each.output_id for each in found} == every and {each.inclusion_rate for each in found} == {1.0}
    assert [each.output_id for each in shorter] == [each.output_id for each in found[:3]]
    rates = {each.output_id: each.inclusion_rate for each in shorter}
    assert all(0 < rate < 1 for rate in rates.values())
    assert rates.get("o1", 1.0) > max((rate for name, rate in rates.items() if name not in ("o1", "o2")), default=0.0)


@pytest.mark.nightly
def test_the_calibration_queue_is_what_calibrate_names_and_its_ratings_count(served: Served):
    named = [str(row["output_id"]) for row in calibrate_run(served.lake, RUN, next_count=4).next_outputs]
    queue = {"queue": Queue.calibration, "count": 4, "overlap": 1}
    with opened_session(served.lake, RUN, **queue, next_ids=named) as session:
        page = Served.of(served.lake, session)
        page.enter("anna")
        for position in range(1, 5):
            page.client.get("/")
            assert session.store.sheet(position, "anna").output_id == named[position - 1]
            page.submit(position, "good")
    assert {row[3] for row in ratings_in(served)} == {"calibration"}
    found = calibrate_run(served.lake, RUN, next_count=10)
    assert [row.n for row in found.rows] == [4]
    assert not {row["output_id"] for row in found.next_outputs} & set(named)
    rated_all = {"next_ids": (), **queue}
    with pytest.raises(InputError, match="people rated them all"), opened_session(served.lake, RUN, **rated_all):
        pass


@pytest.mark.parametrize("queue", [Queue.uncertain, Queue.gates])
def test_an_empty_queue_says_why(served: Served, queue: Queue):
    with connect(served.lake, read_only=True) as connection, pytest.raises(InputError, match=f"--queue {queue.value}"):
        choose_outputs(connection, RUN, queue, 10)


@pytest.mark.nightly
def test_an_unknown_criterion_is_refused(served: Served):
    asked = {"queue": Queue.gates, "count": 1, "overlap": 1, "criterion_ids": ["tune"]}
    with pytest.raises(InputError, match="'tune'"), opened_session(served.lake, RUN, **asked):
        pass


def test_a_rating_by_somebody_who_saw_the_judge_says_so_and_measures_no_judge(served: Served):
    shown = {"queue": Queue.random, "count": 6, "overlap": 1, "has_judge": True}
    for name, session in (("anna", served.session), ("ben", None)):
        served.enter(name)
        served.client.get("/")
        page = served.client.get("/sheet/1").text
        assert session is None or "Judge:" not in page
        served.submit(1, "good")
    served.session.store_marks()
    blind = measure_run(served.lake, RUN)
    with opened_session(served.lake, RUN, **shown) as session:
        seeing = Served.of(served.lake, session)
        for position in range(1, 4):
            seeing.enter("ben")
            assert "said of it is shown" in seeing.client.get(f"/t/{seeing.tokens.issue('ben')}").text
            seeing.client.get("/")
            assert "Judge: <b>" in seeing.client.get(f"/sheet/{position}").text
            assert seeing.submit(position, "bad") == 303
    assert [row for row in ratings_in(served) if row[3] == "judge_shown"] == [
        ("ben", "bad", 0.0, "judge_shown", None)
    ] * 3
    assert measure_run(served.lake, RUN) == blind


@pytest.mark.nightly
def test_disputes_on_criteria_that_the_sheet_has_not_are_named(served: Served):
    for rater, level in (("anna", "good"), ("ben", "bad")):
        served.enter(rater)
        served.client.get("/")
        served.submit(1, level)
    served.session.store_marks()
    with connect(served.lake, read_only=True) as connection:
        (found,) = choose_outputs(connection, RUN, Queue.adjudicate, 9, criterion_ids=("tone", "other"))
        assert list(found.opinions) == ["tone"]
        with pytest.raises(InputError, match="disputes on tone alone"):
            choose_outputs(connection, RUN, Queue.adjudicate, 9, criterion_ids=("other",))


def test_hosts_are_compared_without_case(served: Served):
    assert served.client.get("/t/x", headers={"host": HOST.upper()}).status_code == 403


def test_a_lead_decides_what_raters_dispute_and_the_decision_counts(served: Served):
    for rater, level in (("anna", "good"), ("ben", "bad")):
        served.enter(rater)
        served.client.get("/")
        served.submit(1, level, **{"note.tone": f"{level}!"})
    served.session.store_marks()
    with opened_session(served.lake, RUN, queue=Queue.adjudicate, count=9, overlap=1) as session:
        lead = Served.of(served.lake, session)
        lead.enter("lea")
        assert "1 output on which raters differ" in lead.client.get(f"/t/{lead.tokens.issue('lea')}").text
        lead.client.get("/")
        page = lead.client.get("/sheet/1").text
        assert "Rater 1: <b>good</b>" in page
        assert "good!" in page
        assert "anna" not in page
        assert lead.submit(1, "bad") == 422  # no cause
        assert lead.submit(1, "bad", **{"cause.tone": "rubric_gap", "needs_rubric_update.tone": "yes"}) == 303
        assert session.store_marks() == 1
        output_id = lead.session.store.next_sheet("lea", 0.0)
        assert output_id is None
    with connect(served.lake, read_only=True) as connection:
        connection.execute("create temp table adjudications as from lake.adjudications limit 0")
        (named,) = choose_outputs(connection, RUN, Queue.adjudicate, 9, has_names=True)
    assert [said["rater"] for said in named.opinions["tone"]] == ["anna", "ben"]
    assert all(said["rated_at"].endswith("UTC") for said in named.opinions["tone"])
    with connect(served.lake, read_only=True) as connection:
        decided = "select adjudicator, level_id, cause, needs_rubric_update from adjudications"
        assert connection.execute(decided).fetchall() == [("lea", "bad", "rubric_gap", True)]
        assert len(connection.execute("from ratings").fetchall()) == 2  # the opinions stay
    with pytest.raises(InputError, match="no two raters differ"), connect(served.lake, read_only=True) as connection:
        choose_outputs(connection, RUN, Queue.adjudicate, 10)
