"""Outputs that are audio: what is fetched, what is refused, and what is held at once."""

import base64
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from gradebook.rubrics.checks.audio import tone, wave_file
from gradebook.rubrics.model.rubric import Criterion
from gradebook.tasks.datasets import media as audio
from gradebook.tasks.datasets.media import audio_slices, read_sound, with_audio
from gradebook.tasks.methods.check import stored_columns
from tests.support.scored_rows import score_rows

SECOND = wave_file(tone(1))
CODED = base64.b64encode(SECOND).decode()
NOT_AUDIO = "expected file:PATH or data:audio/...;base64,"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of outputs with one sound file, and a secret beside it."""
    place = tmp_path / "outputs"
    (place / "clips").mkdir(parents=True)
    (place / "clips/a.wav").write_bytes(SECOND)
    (place / "clips/ü 中 %20.wav").write_bytes(SECOND)
    (tmp_path / "secret.wav").write_bytes(SECOND)
    return place


def shard_of(*outputs):
    ids = [f"o{index}" for index in range(len(outputs))]
    return pa.table({"output_id": pa.array(ids, pa.string()), "output": pa.array(outputs, pa.string())})


@pytest.mark.parametrize(
    "output",
    [
        "file:clips/a.wav",
        " File:clips/a.wav\r\n",
        "file:./clips//a.wav",
        "file:clips/ü 中 %20.wav",
        f"data:audio/wav;base64,{CODED}",
        f"DATA:audio/x-wav;codecs=1;BASE64,{CODED[:99]}\r\n {CODED[99:]}",
    ],
)
def test_a_sound_file_is_fetched(folder, output):
    assert read_sound(output, [folder]) == (SECOND, None)


@pytest.mark.parametrize(
    ("output", "fault"),
    [
        ("", f"found '', {NOT_AUDIO}"),
        ("clips/a.wav", f"found 'clips/a.wav', {NOT_AUDIO}"),
        ("https://example.org/a.wav", f"found 'https://example.org/a.wav', {NOT_AUDIO}"),
        ("data:text/plain;base64,YQ==", f"found 'data:text/plain;base64', {NOT_AUDIO}"),
        ("data:audio/wav,abc", f"found 'data:audio/wav', {NOT_AUDIO}"),
        ("data:audio/wav;base64", f"found 'data:audio/wav;base64', {NOT_AUDIO}"),
        ("data:audio/wav;base64,a", "found no base64 behind 'data:audio/wav;base64': "),
        ("data:audio/wav;base64,中中", "found no base64 behind 'data:audio/wav;base64': "),
        ("data:audio/wav;base64,a\x00==", "found no base64 behind 'data:audio/wav;base64': "),
        ("file:clips/b.wav", "no such file: 'clips/b.wav'"),
        ("file:clips", "no such file: 'clips'"),
        ("file:.", "no such file: '.'"),
        ("file:" + "a" * 300, "can't be read: ENAMETOOLONG: 'file:aaa"),
        ("file:" + "a/" * 500_000, "found a path of 1000000 characters, at most 1000"),
        *(
            (f"file:{path}", f"found the path {path!r}, expected one below the folder of the outputs")
            for path in ("", "../secret.wav", "clips/../../secret.wav", "/etc/passwd", "///etc/passwd", "a\x00b")
        ),
    ],
)
def test_a_sound_file_that_cannot_be_had_has_a_fault(folder, output, fault):
    content, found = read_sound(output, [folder])
    assert content is None
    assert found.startswith(fault)


def test_a_link_out_of_the_folder_is_refused(folder):
    (folder / "clips/link.wav").symlink_to("../../secret.wav")
    (folder / "out").symlink_to(folder.parent)
    for name in ("clips/link.wav", "out/secret.wav"):
        fault = f"found a link out of the folder of the outputs: {name!r}"
        assert read_sound(f"file:{name}", [folder]) == (None, fault)


def test_a_link_inside_of_the_folder_is_followed(folder):
    (folder / "link.wav").symlink_to("clips/a.wav")
    assert read_sound("file:link.wav", [folder]).content == SECOND


def test_a_link_in_a_circle_is_no_file(folder):
    (folder / "a.wav").symlink_to("b.wav")
    (folder / "b.wav").symlink_to("a.wav")
    assert read_sound("file:a.wav", [folder]).content is None


def test_a_pipe_is_no_file(folder):
    os.mkfifo(folder / "pipe.wav")
    assert read_sound("file:pipe.wav", [folder]) == (None, "no such file: 'pipe.wav'")


def test_the_first_folder_that_has_the_file_counts(folder, tmp_path):
    other = tmp_path / "other"
    (other / "clips").mkdir(parents=True)
    (other / "clips/a.wav").write_bytes(b"another")
    (other / "b.wav").write_bytes(b"b")
    shard = with_audio(shard_of("file:clips/a.wav", "file:b.wav"), (folder, other))
    assert shard["audio"].to_pylist() == [SECOND, b"b"]


def test_a_folder_given_through_a_link_is_the_folder(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    assert with_audio(shard_of("file:clips/a.wav"), (tmp_path / "link",))["audio"].to_pylist() == [SECOND]


def test_a_file_that_is_too_large_is_refused(folder, monkeypatch):
    monkeypatch.setattr(audio, "MOST_FILE_BYTES", len(SECOND) - 1)
    size = f"too large: found more than {len(SECOND) - 1} bytes, at most {len(SECOND) - 1}"
    assert read_sound("file:clips/a.wav", [folder]) == (None, size)
    assert read_sound(f"data:audio/wav;base64,{CODED}", [folder]) == (None, size)


@pytest.mark.parametrize(
    ("most_bytes", "most_rows", "lengths"),
    [
        (10**9, 64, [5]),
        (10**9, 2, [2, 2, 1]),
        (2 * len(SECOND), 64, [2, 2, 1]),
        (1, 64, [1, 1, 1, 1, 1]),
    ],
)
def test_a_shard_is_taken_in_slices(folder, monkeypatch, most_bytes, most_rows, lengths):
    monkeypatch.setattr(audio, "MOST_HELD_BYTES", most_bytes)
    monkeypatch.setattr(audio, "MOST_HELD_ROWS", most_rows)
    shard = shard_of(*["file:clips/a.wav"] * 5)
    slices = list(audio_slices(shard, (folder,)))
    assert [part.num_rows for part in slices] == lengths
    assert pa.concat_tables(slices).select(shard.column_names) == shard


def test_an_empty_shard_has_the_columns_too():
    made = with_audio(shard_of(), ())
    assert (made.num_rows, made.column_names) == (0, ["output_id", "output", "audio", "audio_fault"])


def criterion_of(check, mode="strict", **settings):
    method = {"type": "check", "check": check, "settings": settings, "mode": mode}
    return Criterion.model_validate({"id": "sound", "description": "Is it so?", "method": method})


@pytest.mark.parametrize("most_rows", [1, 2, 64])
@pytest.mark.parametrize("mode", ["strict", "loose"])
def test_a_check_of_audio_scores_what_the_outputs_name(folder, monkeypatch, most_rows, mode):
    monkeypatch.setattr(audio, "MOST_HELD_ROWS", most_rows)
    (folder / "long.wav").write_bytes(wave_file(np.zeros(24_000)))
    shard = shard_of("file:clips/a.wav", "Hello.", "file:long.wav", "file:gone.wav")
    verdicts = score_rows(criterion_of("audio_duration", mode, max=2), shard, (folder,))
    assert verdicts.select(["output_id", "level_id", "reason"]).to_pylist() == [
        {"output_id": "o0", "level_id": "pass", "reason": None},
        {"output_id": "o1", "level_id": None, "reason": f"audio: found 'Hello.', {NOT_AUDIO}"},
        {"output_id": "o2", "level_id": "fail", "reason": None},
        {"output_id": "o3", "level_id": None, "reason": "audio: no such file: 'gone.wav'"},
    ]


def test_without_folders_no_file_is_read(folder, monkeypatch):
    monkeypatch.chdir(folder)
    verdicts = score_rows(criterion_of("audio_format", formats=["WAV"]), shard_of("file:clips/a.wav"))
    assert verdicts["reason"].to_pylist() == ["audio: no such file: 'clips/a.wav'"]


def test_an_empty_shard_has_no_verdicts(folder):
    assert score_rows(criterion_of("audio_duration", max=2), shard_of(), (folder,)).num_rows == 0


def test_a_check_of_audio_reads_the_output():
    assert stored_columns("audio_snr") == ("output", "metadata")
    assert stored_columns("matches_reference") == ("output", "reference")


@pytest.mark.parametrize(
    ("metadata", "is_sound"),
    [('{"audio":"file:clips/a.wav"}', True), ('{"audio":7}', False), ('{"mood":"audio"}', False), (None, False)],
)
def test_the_sound_of_a_transcript_is_named_by_its_row(folder, metadata, is_sound):
    shard = shard_of("What was said.").append_column("metadata", pa.array([metadata], pa.string()))
    (fault,) = with_audio(shard, (folder,))["audio_fault"].to_pylist()
    assert (fault is None) is is_sound


def test_no_file_outside_the_folder_is_read_for_a_transcript(folder):
    shard = shard_of("So.").append_column("metadata", pa.array(['{"audio":"file:../secret.wav"}']))
    assert with_audio(shard, (folder,))["audio"].to_pylist() == [None]
