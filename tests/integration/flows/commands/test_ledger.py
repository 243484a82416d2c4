"""`gradebook lake ledger`: agreement, differences, and judgments that can't be verified."""

import json
import shutil
from pathlib import Path

import pytest

from gradebook.rubrics.files.versions import rubric_from_body
from gradebook.rubrics.prompts.prompt import Case, case_digest, criterion_digest, request_key
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import commit, connect
from gradebook.tasks.ledger.verify import asked_judges
from tests.support.nightly import nightly
from tests.support.samples import write_rubric

TAMPERED = {
    "another level": ("update judgments set level_id = 'better'", ["level_id", "verdict"]),
    "another status": ("update judgments set status = 'refused', level_id = null", ["verdict"]),
    "another reply": ("update judgments set reply = 'It is fine.'", ["level_id", "status"]),
    "a distribution from nowhere": ("""update judgments set distribution = '{"clear": 1.0}'""", ["distribution"]),
    "another key": ("update judgments set request_key = repeat('0', 32)", ["level_id", "request_key", "verdict"]),
    "another replicate": ("update judgments set replicate = 7", ["request_key"]),
    "another output": ("update outputs set output = output || '!'", ["output_id", "request_key"]),
    "no output": ("delete from outputs", ["output"]),
    "no rubric": ("delete from rubrics", ["criterion"]),
    "another question": ("update rubrics set body = replace(body, 'clear at', 'CLEAR at')", ["request_key"]),
    "another verdict": ("update verdicts set level_id = 'better' where method = 'judge'", ["verdict"]),
    "no judgment": ("delete from judgments", ["verdict"]),
}
UNKNOWN_JUDGE = """update runs set settings = '{"budget_usd": null}'"""


@pytest.fixture(scope="module")
def kept_lake(tmp_path_factory) -> Path:
    """Folder of the first test's lake, copied by the others: creating one takes a second."""
    return tmp_path_factory.mktemp("kept") / "lake"


@pytest.fixture
def reviewed(gradebook, judge, tmp_path: Path, kept_lake: Path):
    """A lake with one published review of one output on one judged criterion."""
    write_rubric(tmp_path / "rubric.yaml")
    (tmp_path / "reply.txt").write_text("Canberra is the capital.", encoding="utf-8")
    if kept_lake.exists():
        shutil.copytree(kept_lake, tmp_path / "lake")
        return gradebook
    finished = gradebook("review", "reply.txt", "--rubrics", "rubric.yaml", "--judge", "gpt-4o-mini")
    assert (finished.code in (0, 1), "starting" in finished.err) == (True, True), finished.err
    shutil.copytree(tmp_path / "lake", kept_lake)
    return gradebook


def tamper(tmp_path: Path, *statements: str) -> None:
    def body(connection, _version):
        for statement in statements:
            connection.execute(statement)

    commit(find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite"), "tamper", body)


def findings(gradebook, *words: str) -> list[str]:
    finished = gradebook("lake", "ledger", "verify", "--json", *words)
    found = finished.json["findings"]
    assert finished.code == (1 if found else 0), finished.err
    assert finished.json["finding_count"] == len(found)
    return sorted({finding["subject"].partition(" ")[0] for finding in found})


def test_new_judgments_agree(reviewed):
    finished = reviewed("lake", "ledger", "verify", "--json")
    assert (finished.code, finished.json) == (
        0,
        {
            "judgment_count": 1,
            "recomputed_count": 1,
            "reread_count": 1,
            "verdict_count": 1,
            "not_checked_count": 0,
            "not_recomputed": {},
            "finding_count": 0,
            "findings": [],
        },
    )


ROWS = list(TAMPERED.values())


@pytest.mark.parametrize(("statement", "subjects"), [*ROWS[:3], *nightly(ROWS[3:])], ids=TAMPERED)
def test_changed_rows_are_found(reviewed, tmp_path, statement, subjects):
    tamper(tmp_path, statement)
    found = findings(reviewed)
    assert set(subjects) <= set(found) <= {*subjects, "level_id", "status"}  # another key has other labels


def test_a_finding_names_judgment_run_and_both_values(reviewed, tmp_path):
    tamper(tmp_path, "update judgments set level_id = 'better', judgment_id = 'j1', run_id = (select run_id from runs)")
    finding = reviewed("lake", "ledger", "verify", "--json").json["findings"][0]
    assert (finding["judgment_id"], finding["subject"], finding["found"]) == ("j1", "level_id", "better")
    assert finding["expected"] in ("clear", "unclear")


def test_the_terminal_shows_one_line_for_each_finding(reviewed, tmp_path):
    tamper(tmp_path, "update judgments set level_id = 'better'")
    finished = reviewed("lake", "ledger", "verify")
    assert "level_id: found better, expected " in finished.out
    assert "2 differences" in finished.out


def test_a_run_that_did_not_record_its_judge_is_counted_apart(reviewed, tmp_path):
    tamper(tmp_path, UNKNOWN_JUDGE)
    finished = reviewed("lake", "ledger", "verify", "--json")
    assert finished.json["not_recomputed"] == {"judgments of runs that did not record their judge": 1}
    assert finished.code == 0


def test_a_run_that_was_never_published_may_lack_its_outputs(reviewed, tmp_path):
    tamper(tmp_path, "delete from outputs", "delete from verdicts", "update runs set status = 'failed'")
    assert reviewed("lake", "ledger", "verify", "--json").json["not_recomputed"] == {
        "judgments of runs that were never published": 1
    }


def test_a_run_that_was_never_published_may_have_had_another_text(reviewed, tmp_path):
    tamper(tmp_path, TAMPERED["another question"][0], "delete from verdicts", "update runs set status = 'failed'")
    finished = reviewed("lake", "ledger", "verify", "--json")
    assert (finished.code, finished.json["not_checked_count"]) == (0, 1)
    assert finished.json["not_recomputed"] == {"judgments of runs that were never published": 1}


@pytest.mark.nightly
def test_replies_with_log_probabilities_are_not_read_again(reviewed, tmp_path):
    (tmp_path / "judge.yaml").write_text("{model: m, mode: logprobs}", encoding="utf-8")
    reviewed("review", "reply.txt", "--rubrics", "rubric.yaml", "--judge", "judge.yaml")
    found = reviewed("lake", "ledger", "verify", "--json").json
    assert (found["recomputed_count"], found["reread_count"], found["not_checked_count"]) == (2, 1, 1)


@pytest.mark.nightly
def test_feedback_texts_are_counted_apart(reviewed):
    reviewed("review", "reply.txt", "--rubrics", "rubric.yaml", "--judge", "gpt-4o-mini", "--feedback", "llm")
    assert reviewed("lake", "ledger", "verify", "--json").json["not_recomputed"] == {
        "feedback texts": 2
    }  # output and model


@pytest.mark.nightly
@pytest.mark.slow
def test_useless_replies_agree_too(reviewed, judge, tmp_path):
    (tmp_path / "reply.txt").write_text("Sydney.", encoding="utf-8")
    judge.faults = ["liar", "liar"]
    reviewed("review", "reply.txt", "--rubrics", "rubric.yaml", "--judge", "gpt-4o-mini")
    finished = reviewed("lake", "ledger", "verify", "--json")
    assert (finished.code, finished.json["reread_count"]) == (0, 3)


@pytest.mark.nightly
def test_recorded_replies_agree_too(reviewed, tmp_path):
    line = {"case_id": "reply.txt", "model": "artifact", "criterion_id": "clarity", "level": "clear"}
    (tmp_path / "replies.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    reviewed("review", "reply.txt", "--rubrics", "rubric.yaml", "--judge", "replay:replies.jsonl")
    finished = reviewed("lake", "ledger", "verify", "--json")
    assert (finished.code, finished.json["reread_count"]) == (0, 2)
    tamper(tmp_path, "update judgments set level_id = 'unclear' where judge like 'replay:%'")
    assert findings(reviewed) == ["level_id", "verdict"]


@pytest.mark.nightly
def test_own_criteria_of_a_row_agree_too(reviewed, tmp_path):
    row = {"output": "Perth.", "criteria": [{"id": "own", "description": "Is it right?", "method": {"type": "judge"}}]}
    (tmp_path / "row.json").write_text(json.dumps(row), encoding="utf-8")
    reviewed("review", "row.json", "--rubrics", "rubric.yaml", "--judge", "gpt-4o-mini")
    finished = reviewed("lake", "ledger", "verify", "--json")
    assert (finished.code, finished.json["recomputed_count"]) == (0, 3)
    tamper(tmp_path, "update case_criteria set body = replace(body, 'right', 'wrong')")
    assert findings(reviewed) == ["request_key"]


@pytest.mark.nightly
def test_judgments_of_chat_prompts_agree_under_the_key_of_the_first_version_too(reviewed, tmp_path):
    prompt = '[{"content":"Where?","role":"user"}]'
    row = {"output": "Perth.", "prompt": json.loads(prompt)}
    (tmp_path / "row.json").write_text(json.dumps(row), encoding="utf-8")
    reviewed("review", "row.json", "--rubrics", "rubric.yaml", "--judge", "gpt-4o-mini")
    assert findings(reviewed) == []
    with connect(find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite"), read_only=True) as lake:
        (settings,) = lake.execute("select settings from runs where dataset like '%row.json'").fetchone()
        (body,) = lake.execute("select body from rubrics").fetchone()
    judge = asked_judges(json.loads(settings)["judge"])[0]
    (criterion,) = [each for each in rubric_from_body(body).criteria if each.id == "clarity"]
    key = request_key(judge.digest, criterion_digest(criterion), case_digest(Case(prompt, "Perth."), shows_chat=False))
    tamper(
        tmp_path,
        f"update judgments set request_key = '{key}' from outputs "
        "where outputs.output_id = judgments.output_id and prompt is not null",
    )
    with connect(find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite"), read_only=True) as lake:
        assert lake.execute("select count(*) from judgments where request_key = ?", [key]).fetchone() == (1,)
    assert "request_key" not in findings(reviewed)


@pytest.mark.nightly
def test_one_run_is_verified_alone(reviewed, tmp_path):
    tamper(tmp_path, "update judgments set level_id = 'better'")
    (tmp_path / "reply.txt").write_text("Sydney.", encoding="utf-8")
    second = reviewed("review", "reply.txt", "--rubrics", "rubric.yaml", "--judge", "gpt-4o-mini", "--json").json
    assert findings(reviewed, "--run", second["evaluations"][0]["run_id"]) == []
    assert findings(reviewed) == ["level_id", "verdict"]


@pytest.mark.nightly
def test_a_run_is_verified_with_what_others_paid_for(reviewed, tmp_path):
    again = reviewed("review", "reply.txt", "--rubrics", "rubric.yaml", "--judge", "gpt-4o-mini", "--json").json
    tamper(tmp_path, "update judgments set reply = ''")
    assert findings(reviewed, "--run", again["evaluations"][0]["run_id"]) == ["level_id", "status"]


def test_a_run_that_is_not_there_is_bad_input(reviewed):
    finished = reviewed("lake", "ledger", "verify", "--run", "none")
    assert (finished.code, "--run: found no 'none'" in finished.err) == (2, True)


def test_no_lake_is_bad_input(gradebook):
    assert gradebook("lake", "ledger", "verify").code == 2


def test_ledger_alone_shows_its_commands(gradebook):
    assert "verify" in gradebook("lake", "ledger").out + gradebook("lake", "ledger", "--help").out


def test_the_judgments_of_an_output_are_shown_with_their_replies(reviewed):
    shown = reviewed("sql", "select output_id, request_key from judgments", "--format", "json").json[0]
    for name in shown.values():
        (judgment,) = reviewed("lake", "ledger", "show", name, "--json").json["judgments"]
        assert json.loads(judgment["reply"])["rationale"] == "Because."
        assert "status: scored" in reviewed("lake", "ledger", "show", name).out


def test_a_name_without_judgments_is_bad_input(reviewed):
    assert reviewed("lake", "ledger", "show", "none").code == 2


def test_a_judgment_of_a_sound_is_counted_apart_because_the_lake_has_no_sound(reviewed, tmp_path):
    hears = """'{"hears_audio":true,"type":"judge"}'"""
    tamper(tmp_path, f"""update rubrics set body = replace(body, '{{"type":"judge"}}', {hears})""")
    finished = reviewed("lake", "ledger", "verify", "--json")
    assert finished.json["not_recomputed"] == {"judgments of cases with images or sounds": 1}
    assert finished.code == 0
