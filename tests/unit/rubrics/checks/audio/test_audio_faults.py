"""Format, duration, silence and clipping, and files that are broken or made to do harm."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.audio import _runs, tone, wave_file
from gradebook.rubrics.checks.registry import find_check
from tests.support.law_over import law_over

MEASURES = (
    "audio_duration",
    "audio_silence",
    "audio_loudness",
    "audio_loudness_steadiness",
    "audio_clipping",
    "audio_snr",
)
SECOND = tone(1)


def raw_wave(content, *, channels=1, rate=8_000, bits=16, tag=1, size=None):
    """A WAV file whose header may lie."""
    width = channels * bits // 8
    header = struct.pack("<IHHIIHH", 16, tag, channels, rate, rate * width & 0xFFFFFFFF, width & 0xFFFF, bits)
    size = len(content) if size is None else size
    riff = b"RIFF" + struct.pack("<I", (36 + size) & 0xFFFFFFFF) + b"WAVEfmt "
    return riff + header + b"data" + struct.pack("<I", size) + content


# -------- format
@pytest.mark.parametrize(
    ("container", "subtype", "shown"),
    [
        ("WAV", "PCM_U8", "WAV PCM_U8, 8000 Hz, 1 channel"),
        ("WAV", "PCM_16", "WAV PCM_16, 8000 Hz, 1 channel"),
        ("WAV", "PCM_24", "WAV PCM_24, 8000 Hz, 1 channel"),
        ("WAVEX", "PCM_32", "WAV PCM_32, 8000 Hz, 1 channel"),
        ("RF64", "PCM_16", "WAV PCM_16, 8000 Hz, 1 channel"),
        ("WAV", "FLOAT", "WAV FLOAT, 8000 Hz, 1 channel"),
        ("WAV", "ULAW", "WAV ULAW, 8000 Hz, 1 channel"),
        ("FLAC", "PCM_24", "FLAC PCM_24, 8000 Hz, 1 channel"),
        ("OGG", "VORBIS", "OGG VORBIS, 8000 Hz, 1 channel"),
        ("OGG", "OPUS", "OGG OPUS, 8000 Hz, 1 channel"),
        ("MP3", "MPEG_LAYER_III", "MP3 MPEG_LAYER_III, 8000 Hz, 1 channel"),
        ("AIFF", "PCM_S8", "AIFF PCM_S8, 8000 Hz, 1 channel"),
    ],
)
def test_the_header_says_what_a_file_is(found, file_of, container, subtype, shown):
    verdicts = found("audio_format", file_of(SECOND, 8_000, container, subtype), {"sample_rates": [8000]})
    assert (verdicts.is_passed[0].as_py(), verdicts.evidence[0].as_py()) == (True, shown)


def test_each_thing_that_differs_is_named(found):
    asked = {"formats": ["FLAC", "OGG"], "subtypes": ["PCM_24"], "sample_rates": [48000], "channels": [1, 2]}
    assert found("audio_format", wave_file(SECOND), asked).evidence[0].as_py() == (
        "format: found WAV, expected FLAC or OGG; subtype: found PCM_16, expected PCM_24; "
        "sample rate: found 8000, expected 48000"
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"R",
        b"\xff",
        b"Hello.",
        b"RIFF",
        b"\xff" * 1_000_000,
        b"\x00" * 1_000_000,
        b"RIFF" * 250_000,
        b"OggS" * 250_000,
        b"fLaC" * 250_000,
        b"FORM" * 250_000,
        b"ID3\x03\x00\x00\x7f\x7f\x7f\x7f" + bytes(1_000_000),
        b"RIFF\xff\xff\xff\x7fWAVE" + b"abcd\x00\x00\x00\x00" * 125_000,
        wave_file(SECOND)[:30],
        raw_wave(b"", channels=0),
        raw_wave(bytes(100), channels=65_535),
        raw_wave(bytes(100), rate=0),
        raw_wave(bytes(100), bits=0),
        b".snd" + struct.pack(">IIIII", 24, 100, 3, 8000, 1) + bytes(100),  # AU: libsndfile could read it
    ],
)
def test_what_is_no_sound_file_fails_its_format_and_cannot_be_measured(verdict_of, reason_of, content):
    assert verdict_of("audio_format", content, {"channels": [1]}) is False
    assert all(reason_of(name, content).startswith("audio: found no ") for name in MEASURES)


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize(("fault", "reason"), [("no such file: 'a'", "audio: no such file: 'a'"), (None, "no audio")])
def test_what_was_not_fetched_is_unscored_with_its_fault(reason_of, name, fault, reason):
    assert reason_of(name, None, fault) == reason


def test_a_long_fault_is_cut(found):
    verdicts = found("audio_format", None, {"channels": [1]}, "x" * 1_000_000)
    assert verdicts.is_passed[0].as_py() is None
    assert len(verdicts.reasons[0].as_py()) == 200


# -------- duration
@pytest.mark.parametrize(
    ("content", "seconds"),
    [
        (wave_file(SECOND), 1.0),
        (wave_file(np.zeros((12_000, 2))), 1.5),
        (wave_file(np.zeros(0)), 0.0),
        (wave_file(SECOND)[: 44 + 8_000], 0.5),  # half of 16,000 bytes
        (raw_wave(bytes(16_000), size=0xFFFFFFFF), 1.0),  # what programs write that stream
        (raw_wave(bytes(16_000), size=0xFFFFFFF0), 1.0),
        (raw_wave(bytes(1_000), bits=24), 333 / 8_000),
    ],
)
def test_what_is_there_counts_and_not_what_the_header_says(measured, content, seconds):
    assert measured("audio_duration", content) == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize("container", ["FLAC", "OGG", "AIFF", "WAVEX", "RF64"])
def test_a_container_does_not_change_the_duration(measured, file_of, container):
    assert measured("audio_duration", file_of(tone(2.5), 8_000, container)) == 2.5


# -------- silence
GAPS = np.concatenate([np.zeros(800), tone(0.5), np.zeros(2_400), tone(0.5), np.zeros(1_600)])


@pytest.mark.parametrize(
    ("kind", "number"),
    [("share", 0.375), ("leading", 0.1), ("trailing", 0.2), ("longest", 0.3)],  # (0.1 + 0.3 + 0.2) / 1.6 s
)
@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000])
def test_silence_is_measured_where_it_is_asked_for(measured, kind, number, rate):
    found = measured("audio_silence", wave_file(GAPS, rate), kind=kind)
    times = 8_000 / rate if kind != "share" else 1  # the same samples, played faster
    assert found == pytest.approx(number * times, abs=0.02)  # two frames of 10 ms


@pytest.mark.parametrize(("samples", "share"), [(np.zeros(8_000), 1.0), (tone(1, 1), 0.0), (np.zeros(1), 1.0)])
@pytest.mark.parametrize("kind", ["share", "leading", "trailing", "longest"])
def test_all_or_nothing_is_silent(measured, samples, share, kind):
    times = 1 if kind == "share" else len(samples) / 8_000
    assert measured("audio_silence", wave_file(samples), kind=kind) == pytest.approx(share * times, abs=1e-6)


@pytest.mark.parametrize(("dbfs", "share"), [(-40, 0.0), (-39, 1.0)])
def test_the_threshold_is_the_power_against_full_scale(measured, dbfs, share):
    # A square wave of 0.01 has the power 0.0001: -40 dBFS; what lies at the threshold is heard.
    content = wave_file(np.resize([0.010009765625, -0.010009765625], 8_000))  # 328 / 32768
    assert measured("audio_silence", content, threshold_dbfs=dbfs) == share


# -------- clipping
@pytest.mark.parametrize(
    ("subtype", "top"), [("PCM_U8", 127 / 128), ("PCM_16", 32767 / 32768), ("PCM_24", 1 - 2**-23), ("FLOAT", 1.0)]
)
@pytest.mark.parametrize("sign", [1, -1])
def test_full_scale_is_that_of_the_format(measured, file_of, subtype, top, sign):
    samples = np.zeros(100)
    samples[10:15] = sign * top
    assert measured("audio_clipping", file_of(samples, subtype=subtype)) == 0.05


@pytest.mark.parametrize(("min_run", "share"), [(1, 0.06), (2, 0.05), (3, 0.03), (4, 0.0)])
def test_a_run_has_to_be_long_enough(measured, min_run, share):
    samples = np.zeros(100)
    samples[[0, 20, 21, 97, 98, 99]] = 1.0
    assert measured("audio_clipping", wave_file(samples), min_run=min_run) == share


def test_a_run_is_one_channels_own(measured):
    samples = np.tile([1.0, 0.0], (50, 1))  # one channel throughout, interleaved with the other's silence
    assert measured("audio_clipping", wave_file(samples), min_run=50) == 0.5
    assert measured("audio_clipping", wave_file(samples), min_run=51) == 0.0


def test_a_run_goes_on_from_block_to_block(measured):
    samples = np.ones(300_000)  # more than two blocks
    assert measured("audio_clipping", wave_file(samples), min_run=300_000) == 1.0
    assert measured("audio_clipping", wave_file(samples), min_run=300_001) == 0.0


def test_a_sine_that_just_reaches_full_scale_is_not_clipped(measured):
    assert measured("audio_clipping", wave_file(tone(1, 1, 997, 48_000), 48_000)) == 0.0


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=8), min_size=1, max_size=5))
def test_runs_of_blocks_are_those_of_the_whole(blocks):
    lengths, carried = [], 0
    for block in blocks:
        ended, carried = _runs(np.array(block), carried)
        lengths += ended.tolist()
    whole = "".join("x" if is_full else " " for block in blocks for is_full in block)
    assert [*lengths, *([carried] if carried else [])] == [len(run) for run in whole.split()]


# -------- harm
@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_a_sample_that_is_no_number_makes_a_file_unmeasurable(reason_of, name, value):
    samples = np.append(np.zeros(8_000), value).astype("<f8").tobytes()
    assert reason_of(name, raw_wave(samples, bits=64, tag=3)) == (
        "audio: found a sample that is NaN, infinite or a million times full scale"
    )


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("rate", [1, 3_999, 192_001, 2**31 - 1])
def test_an_absurd_sample_rate_is_not_measured(reason_of, name, rate):
    reason = f"audio: found a sample rate of {rate} Hz, expected 4000 to 192000"
    assert reason_of(name, raw_wave(bytes(1_000), rate=rate)) == reason


@pytest.mark.parametrize("name", MEASURES)
def test_an_absurd_number_of_channels_is_not_measured(reason_of, name):
    assert reason_of(name, raw_wave(bytes(1_000_000), channels=1024)) == "audio: found 1024 channels, at most 64"


@pytest.mark.parametrize("name", MEASURES)
def test_a_header_that_claims_too_much_is_believed_before_anything_is_decoded(reason_of, file_of, name):
    content = bytearray(file_of(SECOND, 8_000, "FLAC"))
    content[21] |= 0x0F  # the upper four of the 36 bits that count the samples
    content[22:26] = b"\xff" * 4
    words = f"audio: too long to measure: found {2**36 - 1} samples, at most "
    assert reason_of(name, bytes(content)).startswith(words)


@pytest.mark.parametrize("name", MEASURES)
def test_a_flac_file_that_breaks_off_cannot_be_decoded(reason_of, file_of, name):
    noise = np.random.default_rng(3).normal(0, 0.1, 40_000)
    content = file_of(noise, 8_000, "FLAC")
    assert reason_of(name, content[: len(content) // 2]).startswith("audio: can't be decoded: ")


# -------- settings
@law_over(
    ("name", "given"),
    [
        ("audio_format", {}),
        ("audio_format", {"formats": []}),
        ("audio_format", {"formats": ["wav"]}),
        ("audio_format", {"subtypes": ["PCM16"]}),
        ("audio_format", {"sample_rates": [0]}),
        ("audio_format", {"sample_rates": ["48000"]}),
        ("audio_format", {"channels": [1.0]}),
        ("audio_duration", {}),
        ("audio_duration", {"min": 3, "max": 2}),
        ("audio_duration", {"max": -1}),
        ("audio_silence", {"max": 20}),  # a percentage
        ("audio_silence", {"kind": "middle", "max": 1}),
        ("audio_silence", {"max": 0.1, "threshold_dbfs": 50}),
        ("audio_silence", {"max": 0.1, "threshold_dbfs": -120}),
        ("audio_silence", {"levels": {"good": 2}}),
        ("audio_loudness", {"max": 23}),  # a lost minus sign
        ("audio_loudness", {"min": -71}),  # nothing reads less
        ("audio_loudness", {"kind": "peak", "min": -30}),
        ("audio_loudness_steadiness", {"max": 3, "window_ms": 250}),
        ("audio_loudness_steadiness", {"max": 3, "window_ms": 0}),
        ("audio_clipping", {"max": 5}),
        ("audio_clipping", {"max": 0.1, "min_run": 0}),
        ("audio_snr", {"min": 121}),
        ("audio_snr", {"min": 20, "noise": 5}),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(name, given):
    with pytest.raises(ValidationError):
        read_settings(find_check(name), given)


def test_seconds_of_silence_may_be_more_than_one(verdict_of):
    assert verdict_of("audio_silence", wave_file(np.zeros(16_000)), {"kind": "trailing", "min": 2}) is True


def test_a_number_may_stand_for_a_level(found):
    levels = {"levels": {"soft": -30, "loud": -12}}
    assert found("audio_loudness", wave_file(SECOND), levels).level_ids.to_pylist() == ["loud"]
    assert found("audio_loudness", wave_file(0.1 * SECOND), levels).level_ids.to_pylist() == ["soft"]
    assert found("audio_loudness", wave_file(0 * SECOND), levels).level_ids.to_pylist() == [None]


def test_hours_in_a_small_file_are_not_measured(reason_of, file_of):
    content = file_of(np.zeros(9_000_000), 48_000, "FLAC")
    most = 8_000_000 + 16 * len(content)
    assert most < 9_000_000
    words = f"audio: too long to measure: found 9000000 samples, at most {most} of a file of {len(content)} bytes"
    assert reason_of("audio_duration", content) == words


def test_minutes_of_silence_in_a_small_file_are_measured(measured, file_of):
    assert measured("audio_duration", file_of(np.zeros(7_200_000), 48_000, "FLAC")) == 150
