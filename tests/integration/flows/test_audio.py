"""`gradebook evaluate` on outputs that name audio files in the dataset's folder."""

import json

import numpy as np
import pytest

from gradebook.rubrics.checks.audio.waves import tone, wave_file

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
