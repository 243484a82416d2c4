"""Loudness, steadiness and signal-to-noise ratio of signals whose numbers are known."""

import numpy as np
import pytest

from gradebook.rubrics.checks.audio import tone, wave_file
from gradebook.rubrics.checks.audio_loudness import k_filters

RATE = 48_000
FULL = tone(5, 1, 997, RATE)


def in_both(samples):
    return np.stack([samples, samples], axis=1)


@pytest.mark.parametrize(
    ("samples", "lufs"),
    [
        (FULL, -3.01),  # BS.1770: a 997 Hz sine at 0 dBFS in one channel
        (in_both(FULL), 0.0),  # twice the power: -3.01 + 3.01
        (np.stack([FULL, 0 * FULL], axis=1), -3.01),
        (in_both(FULL) * 10 ** (-23 / 20), -23.0),  # EBU Tech 3341, case 1, with 997 Hz
        (in_both(FULL) * 10 ** (-33 / 20), -33.0),  # case 2
    ],
)
def test_loudness_is_that_of_the_standard(measured, samples, lufs):
    assert measured("audio_loudness", wave_file(samples, RATE)) == pytest.approx(lufs, abs=0.01)


@pytest.mark.parametrize(
    "levels_and_seconds",
    [
        [(-36, 10), (-23, 60), (-36, 10)],  # EBU Tech 3341, case 3: the relative gate leaves the loud part
        [(-72, 10), (-36, 10), (-23, 60), (-36, 10), (-72, 10)],  # case 4: the absolute gate too
    ],
)
def test_quiet_parts_do_not_lower_the_loudness(measured, file_of, levels_and_seconds):
    parts = [tone(seconds, 10 ** (level / 20), 1000, 8000) for level, seconds in levels_and_seconds]
    content = file_of(in_both(np.concatenate(parts)), 8000, subtype="FLOAT")
    assert measured("audio_loudness", content) == pytest.approx(-23.0, abs=0.1)


@pytest.mark.parametrize(
    ("place", "lufs"),
    # -3.01 for one channel of weight 1; surrounds weigh 1.41: -3.01 + 1.49; low frequencies are left out
    [(0, -3.01), (2, -3.01), (3, -70.0), (4, -1.52), (5, -1.52)],
)
def test_six_channels_have_the_weights_of_the_standard(measured, place, lufs):
    samples = np.zeros((len(FULL), 6))
    samples[:, place] = FULL
    assert measured("audio_loudness", wave_file(samples, RATE)) == pytest.approx(lufs, abs=0.01)


@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000, 22_050, 24_000, 44_100, 96_000, 192_000])
def test_loudness_hardly_depends_on_the_sample_rate(measured, rate):
    assert measured("audio_loudness", wave_file(tone(1, 1, 997, rate), rate)) == pytest.approx(-3.01, abs=0.05)


def test_the_filters_at_48_khz_are_those_of_the_standard():
    # BS.1770-5, annex 1, tables 1 and 2
    (shelf, shelf_poles), (high_pass, high_pass_poles) = k_filters(48_000)
    assert shelf == pytest.approx((1.53512485958697, -2.69169618940638, 1.19839281085285), abs=1e-8)
    assert shelf_poles == pytest.approx((1.0, -1.69065929318241, 0.73248077421585), abs=1e-8)
    assert high_pass == (1.0, -2.0, 1.0)
    assert high_pass_poles == pytest.approx((1.0, -1.99004745483398, 0.99007225036621), abs=1e-8)


def filtered_plainly(samples, numerator, denominator):
    """The difference equation, a sample at a time."""
    output = np.zeros(len(samples) + 2)
    padded = np.concatenate([[0.0, 0.0], samples])
    for n in range(2, len(padded)):
        fed = sum(numerator[k] * padded[n - k] for k in range(3))
        output[n] = fed - denominator[1] * output[n - 1] - denominator[2] * output[n - 2]
    return output[2:]


def test_loudness_agrees_with_the_difference_equation_and_the_gates_in_plain_python(measured, file_of):
    rate = 4_000  # more than one block of 2 s, and a rest
    samples = np.random.default_rng(1).normal(0, 0.1, 9_700) * np.repeat([1.0, 0.02, 0.5, 0.001], 2_425) + 0.2
    weighted = samples
    for numerator, denominator in k_filters(rate):
        weighted = filtered_plainly(weighted, numerator, denominator)
    powers = [np.mean(weighted[start : start + 1600] ** 2) for start in range(0, 9_700 - 1600 + 1, 400)]
    loud = [power for power in powers if -0.691 + 10 * np.log10(power) > -70]
    kept = [power for power in loud if 10 * np.log10(power) > 10 * np.log10(np.mean(loud)) - 10]
    expected = -0.691 + 10 * np.log10(np.mean(kept))
    content = file_of(samples, rate, subtype="DOUBLE")
    assert measured("audio_loudness", content) == pytest.approx(expected, abs=1e-6)  # evidence has six digits


@pytest.mark.parametrize(
    ("samples", "dbfs"),
    [
        (FULL, -3.01),  # a sine's power is half its peak's: 10 log10(0.5)
        (0.5 * FULL, -9.03),
        (in_both(FULL), -3.01),  # the mean over channels, not the sum
        (np.stack([FULL, 0 * FULL], axis=1), -6.02),
        (np.full(RATE, -1.0), 0.0),
        (np.zeros(RATE), -120.0),
        (FULL[:100] * 0, -120.0),
    ],
)
def test_rms_is_the_plain_power(measured, samples, dbfs):
    assert measured("audio_loudness", wave_file(samples, RATE), kind="rms") == pytest.approx(dbfs, abs=0.01)


def test_silence_is_as_quiet_as_can_be_and_fails_a_least_loudness(measured, verdict_of):
    silence = wave_file(np.zeros(RATE), RATE)
    assert measured("audio_loudness", silence) == -70.0
    assert verdict_of("audio_loudness", silence, {"min": -30}) is False


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (np.zeros(0), "audio: too short"),
        (FULL[: RATE // 10 * 4 - 1], "audio: too short"),
        (np.zeros((RATE, 3)), "audio: found 3 channels, expected 1, 2, 5 or 6"),
        (np.zeros((RATE, 7)), "audio: found 7 channels, expected 1, 2, 5 or 6"),
    ],
)
def test_loudness_that_is_not_defined_is_unscored(reason_of, samples, reason):
    assert reason_of("audio_loudness", wave_file(samples, RATE)).startswith(reason)


def test_exactly_one_gating_block_has_a_loudness(measured):
    assert measured("audio_loudness", wave_file(FULL[: RATE // 10 * 4], RATE)) == pytest.approx(-3.01, abs=0.02)


def test_steadiness_is_the_deviation_of_the_windows(measured):
    # Windows of 100 ms, half of them at one loudness and half 12 dB below: both 6 LU from their mean.
    samples = np.append(tone(5, 0.8, 1000, RATE), tone(5, 0.8 * 10 ** (-12 / 20), 1000, RATE))
    found = measured("audio_loudness_steadiness", wave_file(samples, RATE), window_ms=100)
    assert found == pytest.approx(6.0, abs=0.02)


def test_a_pause_does_not_make_speech_unsteady(measured):
    even = np.concatenate([tone(3, 0.5, 500), np.zeros(24_000), tone(3, 0.5, 500)])
    pauses_count = np.concatenate([tone(3, 0.5, 500), tone(3, 0.1, 500)])
    assert measured("audio_loudness_steadiness", wave_file(even), window_ms=100) < 1
    assert measured("audio_loudness_steadiness", wave_file(pauses_count), window_ms=100) > 5


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (tone(1.9), "audio: too short: found 1.9 s, at least 2 s required"),
        (np.zeros(0), "audio: too short: found 0 s, at least 2 s required"),
        (np.zeros(40_000), "audio: too silent: found 0 windows above the gate, at least 2 required"),
    ],
)
def test_steadiness_of_too_little_is_unscored(reason_of, samples, reason):
    assert reason_of("audio_loudness_steadiness", wave_file(samples)) == reason


@pytest.mark.parametrize("snr", [0, 10, 20, 40])
@pytest.mark.parametrize("rate", [16_000, 48_000])
def test_the_ratio_of_a_tone_to_known_noise_is_estimated_within_one_decibel(measured, file_of, snr, rate):
    # The tone's power is 0.3 ** 2 / 2; half of the time it pauses, and the noise never does.
    voice = np.append(tone(2, 0.3, 440, rate), np.zeros(2 * rate))
    noise = np.random.default_rng(7).normal(0, np.sqrt(0.045 / 10 ** (snr / 10)), len(voice))
    content = file_of(voice + noise, rate, subtype="FLOAT")
    assert measured("audio_snr", content) == pytest.approx(snr, abs=1)


@pytest.mark.parametrize(
    ("samples", "decibels"),
    [
        (np.append(tone(1), np.zeros(8_000)), 120.0),  # pauses of digital silence
        (np.full(8_000, 0.5), -20.0),  # all frames are alike
    ],
)
def test_the_estimate_has_a_least_and_a_most(measured, samples, decibels):
    assert measured("audio_snr", wave_file(samples)) == decibels


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (tone(0.4), "audio: too short: found less than 0.5 s, at least 0.5 s required"),
        (np.zeros(8_000), "audio: found digital silence, expected speech and pauses"),
        (np.zeros(0), "audio: found no samples"),
    ],
)
def test_a_ratio_that_cannot_be_estimated_is_unscored(reason_of, samples, reason):
    assert reason_of("audio_snr", wave_file(samples)) == reason
