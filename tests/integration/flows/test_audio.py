"""`gradebook evaluate` on outputs that name audio files in the dataset's folder."""

import json

import numpy as np
import pytest

from gradebook.rubrics.checks.audio import tone, wave_file
from tests.support.media_samples import SeeingJudge, parts_of

RUBRIC = """
id: speech
version: 1.0.0
pass_threshold: 1
criteria:
  - id: length
    description: Between half a second and two seconds.
    weight: 1
    method: {type: check, check: audio_duration, settings: {min: 0.5, max: 2}}
  - id: loudness
    description: As loud as speech.
    weight: 1
    method: {type: check, check: audio_loudness, settings: {min: -30, max: -5}}
"""
OUTPUTS = {"tone": "file:clips/tone.wav", "silence": "file:clips/silence.wav", "gone": "file:clips/gone.wav"}


@pytest.fixture
def outputs(tmp_path):
    """Three outputs in their own folder; two of them name an existing file."""
    clips = tmp_path / "night/clips"
    clips.mkdir(parents=True)
    (clips / "tone.wav").write_bytes(wave_file(tone(1)))
    (clips / "silence.wav").write_bytes(wave_file(np.zeros(8_000)))
    rows = [{"case_id": case, "model": "voice", "output": output} for case, output in OUTPUTS.items()]
    (tmp_path / "night/outputs.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return tmp_path / "night/outputs.jsonl"


@pytest.mark.nightly
def test_audio_files_in_the_dataset_s_folder_are_scored(evaluate, gradebook, outputs, tmp_path):
    (tmp_path / "speech.yaml").write_text(RUBRIC, encoding="utf-8")
    finished = evaluate(outputs, "--rubric", tmp_path / "speech.yaml")
    assert finished.code in (0, 1), finished.err
    query = (
        "select case_id, criterion_id, level_id, reason from verdicts join outputs using (output_id) "
        "order by case_id, criterion_id"
    )
    rows = json.loads(gradebook("sql", query, "--format", "json").out)
    assert [tuple(row.values()) for row in rows] == [
        ("gone", "length", None, "audio: no such file: 'clips/gone.wav'"),
        ("gone", "loudness", None, "audio: no such file: 'clips/gone.wav'"),
        ("silence", "length", "pass", None),
        ("silence", "loudness", "fail", None),
        ("tone", "length", "pass", None),
        ("tone", "loudness", "pass", None),
    ]


@pytest.mark.nightly
def test_one_score_covers_what_was_said_and_how_it_sounds(evaluate, gradebook, outputs, tmp_path, monkeypatch):
    heard = "{type: judge, hears_audio: true}"
    levels = "[{id: bad, score: 0}, {id: good, score: 1}]"
    more = "".join(
        f"  - {{id: {name}, description: Is it {name}?, weight: 1, levels: {levels}, method: {method}}}\n"
        for name, method in (("clear", heard), ("right", "{type: judge}"))
    )
    (tmp_path / "speech.yaml").write_text(RUBRIC + more, encoding="utf-8")
    rows = [{"case_id": c, "model": "v", "output": "Hello.", "audio": sound} for c, sound in OUTPUTS.items()]
    outputs.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with SeeingJudge() as judge:
        monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        finished = evaluate(outputs, "--rubric", tmp_path / "speech.yaml", "--judge", "m")
    assert finished.code == 1, finished.err
    sounds = [part for body in judge.bodies for part in parts_of(body) if part["type"] == "input_audio"]
    assert (len(judge.bodies), len(sounds)) == (3, 2)  # the text once, as all rows say the same; two sounds
    scores = json.loads(gradebook("sql", "select case_id, score from output_scores", "--format", "json").out)
    known = {row["case_id"]: row["score"] is not None for row in scores}
    assert known == {"tone": True, "silence": True, "gone": False}
