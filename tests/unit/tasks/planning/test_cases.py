"""Cases with pictures and sounds, from the shard to the judge."""

import base64
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradebook.rubrics.checks.audio import tone, wave_file
from gradebook.rubrics.model.methods import JudgeMethod
from gradebook.rubrics.model.outputs import SHARD_SCHEMA
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.prompts.media_kinds import UnreadableMedia
from gradebook.tasks.datasets.ingest import Ingested
from gradebook.tasks.judging.session.session import open_session
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.methods.judge_shard import shard_questions
from gradebook.tasks.methods.plan import plan_run
from gradebook.tasks.planning.cases import read_cases
from gradebook.tasks.workspace.folder import RunFolder
from tests.support.asked import PRICE, TONE
from tests.support.media_samples import SOUND, SeeingJudge, chat, coded, image_part, parts_of, png, text_part

HEARD = TONE.model_copy(update={"id": "heard", "weight": 1, "method": JudgeMethod(type="judge", hears_audio=True)})
KIND = TONE.model_copy(update={"id": "kind", "description": "Is it kind?", "weight": 1})
RUBRIC = Rubric.model_construct(id="r", version="1.0.0", criteria=(TONE, KIND))
SPEECH = Rubric.model_construct(id="s", version="1.0.0", criteria=(TONE, HEARD, KIND))
CASES = {
    "pictured": (chat(text_part("What is it?"), image_part("file:pictures/cat.png")), "A cat."),
    "spoken": ("Say it.", "file:say.wav"),
    "plain": ("Why?", "So."),
}


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """The folder of the outputs' files."""
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures/cat.png").write_bytes(png(30, 20))
    (tmp_path / "say.wav").write_bytes(SOUND)
    return tmp_path


def plan(outputs, cases=CASES, folders=(), rubric=RUBRIC, **changes):
    """Write and plan a shard; returns the plan, and the questions as they are asked. A case may name its sound."""
    rows = [
        dict.fromkeys(SHARD_SCHEMA.names)
        | {"output_id": name, "case_id": name, "model": "m", "sample_index": 0, "prompt": prompt, "output": output}
        | {"metadata": json.dumps({"audio": audio[0]}) if audio else None}
        for name, (prompt, output, *audio) in cases.items()
    ]
    shard = outputs / "shard.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=SHARD_SCHEMA), shard)
    folder, lake = RunFolder(outputs / "run"), find_lake(f"sqlite:{outputs}/none.sqlite")
    settings = JudgeSettings(model="m", base_url="http://127.0.0.1:9/v1", prices=None, **changes)
    folders = folders or (outputs,)
    ingested = Ingested((str(shard),), len(rows), len(rows), 0, 0, (), ("m",))
    planned = plan_run(lake, folder, rubric, settings, ingested, folders=folders)
    return planned, lambda: shard_questions(folder, rubric, str(shard), 0, settings.style, folders, settings=settings)


def keys(outputs):
    return {(question.output_id, question.criterion_id): question.request_key for question in plan(outputs)[1]()}


@pytest.fixture
def bodies(outputs) -> list:
    """Requests to the judge about all cases and both criteria."""
    with SeeingJudge() as judge:
        settings = JudgeSettings(model="m", base_url=judge.base_url)
        answers: list = []
        with open_session(settings, journal_folder=outputs / "j", run_id="run", price=PRICE) as session:
            session.ask(plan(outputs)[1](), answers.append)
        assert [answer.status for answer in answers] == ["scored"] * 6
        return judge.bodies


def media_of(body):
    return [part for part in parts_of(body) if part["type"] != "text"]


def test_a_picture_of_a_prompt_arrives_with_its_bytes(bodies):
    urls = [part["image_url"]["url"] for body in bodies for part in media_of(body) if part["type"] == "image_url"]
    assert [base64.b64decode(url.removeprefix("data:image/png;base64,")) for url in urls] == [png(30, 20)] * 2


def test_a_sound_that_is_an_output_arrives_with_its_bytes(bodies):
    sounds = [part["input_audio"] for body in bodies for part in media_of(body) if part["type"] == "input_audio"]
    assert [(base64.b64decode(sound["data"]), sound["format"]) for sound in sounds] == [(SOUND, "wav")] * 2


@pytest.mark.parametrize("word", ["What is it?", "Say it."])
def test_two_criteria_share_all_that_stands_before_them(bodies, word):
    one, other = (parts_of(body) for body in bodies if word in json.dumps(body))
    assert one[:-1] == other[:-1]
    assert one[-1] != other[-1]
    assert all(parts[-1]["text"].startswith("CRITERION\n") for parts in (one, other))


def test_a_case_without_pictures_is_asked_about_in_texts(bodies):
    plain = [body for body in bodies if "Why?" in json.dumps(body)]
    assert [[type(message["content"]) for message in body["messages"]] for body in plain] == [[str, str]] * 2


def test_another_picture_is_another_question_and_its_name_is_none(outputs):
    before = keys(outputs)
    (outputs / "pictures/cat.png").write_bytes(png(30, 20, shade=9))
    changed = {key for key, value in keys(outputs).items() if value != before[key]}
    assert changed == {("pictured", "tone"), ("pictured", "kind")}


@pytest.mark.parametrize(
    ("when", "fault"),
    [("planned", "found other images or sounds than when the run"), ("pulled", "cat.png: found another content than")],
)
def test_a_file_that_changed_since_the_plan_is_an_error_of_its_questions(outputs, when, fault):
    _, ask = plan(outputs)
    questions = ask()
    first = next(questions) if when == "pulled" else None
    (outputs / "pictures/cat.png").write_bytes(png(shade=7))
    with pytest.raises(UnreadableMedia, match=fault):
        (first or next(questions)).request()
    assert [question.request() is not None for question in questions if question.output_id != "pictured"] == [True] * 4


def test_a_file_that_is_gone_is_an_error_of_its_questions_alone(outputs):
    (outputs / "say.wav").unlink()
    _, ask = plan(outputs)
    for question in ask():
        if question.output_id == "spoken":
            with pytest.raises(UnreadableMedia, match=r"^unreadable_media: say\.wav: no such file: 'say\.wav'$"):
                question.request()
        else:
            question.request()


def test_a_file_that_came_back_after_the_plan_is_not_asked_about(outputs):
    (outputs / "say.wav").unlink()
    _, ask = plan(outputs)
    (outputs / "say.wav").write_bytes(SOUND)
    spoken = [question for question in ask() if question.output_id == "spoken"]
    assert [question.case.media_fault is not None for question in spoken] == [True, True]


def test_pictures_count_by_their_tokens_in_the_estimate_and_not_by_their_bytes(outputs):
    data = f"data:image/png;base64,{coded(png() + bytes(3_000_000))}"
    planned, _ = plan(outputs, {"one": ("Why?", data)})
    plain, _ = plan(outputs, {"one": ("Why?", "[image 1]")})
    tokens = planned.criteria[0].prompt_tokens - plain.criteria[0].prompt_tokens
    assert 1_000 < tokens < 2_000


def test_where_nobody_is_shown_a_picture_a_placeholder_stands_for_it(outputs):
    plan(outputs, {"one": (chat(image_part(f"data:image/png;base64,{coded(png())}")), "A cat."), "two": ("?", "So.")})
    cases = [case for _, case in read_cases(str(outputs / "shard.parquet"))]
    assert [case.prompt for case in cases] == [
        '[{"content":[{"image_url":"[image 1]","type":"image_url"}],"role":"user"}]',
        "?",
    ]
    assert not any(case.media or case.media_fault for case in cases)


def test_without_folders_a_name_of_a_file_is_a_text(outputs):
    plan(outputs)
    folder, shard = RunFolder(outputs / "run"), str(outputs / "shard.parquet")
    outputs_seen = {question.case.output for question in shard_questions(folder, RUBRIC, shard, 0)}
    assert outputs_seen == {"A cat.", "file:say.wav", "So."}


def test_a_file_is_not_kept_between_questions_of_a_shard(outputs):
    _, ask = plan(outputs)
    held = [medium for question in ask() for medium in question.case.media]
    assert len(held) == 4
    assert not any(isinstance(getattr(medium, name), bytes) for medium in held for name in medium.__slots__)


def heard_and_read(outputs, cases, **changes):
    """Questions by criterion."""
    return {question.criterion_id: question for question in plan(outputs, cases, rubric=SPEECH, **changes)[1]()}


def test_a_judge_that_hears_gets_the_sound_of_a_transcript_and_the_others_its_text_alone(outputs):
    found = heard_and_read(outputs, {"one": ("Say it.", "It.", "file:say.wav")})
    heard, read = (parts_of({"messages": found[name].request().messages}) for name in ("heard", "tone"))
    (sound,) = [part["input_audio"] for part in heard if part["type"] == "input_audio"]
    assert base64.b64decode(sound["data"]) == SOUND
    assert "is its transcript" in heard[-3]["text"] and '"output": "It."' in heard[1]["text"]
    assert {part["type"] for part in read} == {"text"}


def test_another_recording_of_a_transcript_is_another_question_to_a_judge_that_hears(outputs):
    cases = {"one": ("Say it.", "It.", "file:say.wav")}
    before = heard_and_read(outputs, cases)
    (outputs / "say.wav").write_bytes(wave_file(tone(2)))
    after = heard_and_read(outputs, cases)
    assert {name for name in before if before[name].request_key != after[name].request_key} == {"heard"}


def test_a_recording_that_changed_since_the_plan_is_not_sent(outputs):
    _, ask = plan(outputs, {"one": ("Say it.", "It.", "file:say.wav")}, rubric=SPEECH)
    (outputs / "say.wav").write_bytes(wave_file(tone(2)))
    with pytest.raises(UnreadableMedia, match="found other images or sounds than when the run"):
        {question.criterion_id: question for question in ask()}["heard"].request()


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (("Say it.", "It."), "the row names no sound, expected its `audio`"),
        (("Say it.", "It.", "say.wav"), "audio: found say.wav, expected file:NAME or data:audio"),
        (("Say it.", "It.", "file:../say.wav"), "found the path '../say.wav', expected one below the folder"),
        (("Say it.", "It.", "file:pictures/cat.png"), "found PNG, expected a WAV or MP3 sound"),
    ],
)
def test_without_a_sound_a_judge_that_hears_is_not_asked_and_the_others_are(outputs, case, reason):
    found = heard_and_read(outputs, {"one": case})
    with pytest.raises(UnreadableMedia, match=f"^unreadable_media: .*{reason}"):
        found["heard"].request()
    assert found["tone"].request().messages


def test_an_output_that_is_a_sound_itself_needs_no_second_one(outputs):
    found = heard_and_read(outputs, {"one": ("Say it.", "file:say.wav")})
    assert len(media_of({"messages": found["heard"].request().messages})) == 1


def test_criteria_that_hear_are_not_batched_with_those_that_read(outputs):
    _, ask = plan(outputs, {"one": ("Say it.", "It.", "file:say.wav")}, rubric=SPEECH, packing=3)
    assert [[part.criterion_id for part in batch.questions] for batch in ask()] == [["tone", "kind"], ["heard"]]
