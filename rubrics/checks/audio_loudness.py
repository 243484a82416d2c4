"""Checks of the loudness of audio, and of its steadiness.

Perceived loudness: K-weighting and gating of ITU-R BS.1770-5 (2023), annex 1.
"""

from functools import lru_cache
from math import pi, tan
from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from gradebook.rubrics.check_kit.audio_reading import Recording, Samples, UnusableAudio
from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, register_check
from gradebook.rubrics.checks.audio import (
    AUDIO_COLUMNS,
    QUIETEST_DBFS,
    AudioMeasureSettings,
    decibels,
    example_audio,
    frame_powers,
    judge_audio,
    tone,
)
from gradebook.rubrics.text.wording import counted

HOP_MS = 100
HIGHEST_LEVEL = 20.0  # LUFS or dBFS: a bound above it lacks its minus sign
INTEGRATED_GATE = 10.0  # LU below the mean: BS.1770
STEADINESS_GATE = 20.0  # LU below the mean: EBU Tech 3342


class AudioLoudnessSettings(AudioMeasureSettings):
    """Kind of loudness."""

    kind: Literal["lufs", "rms"] = "lufs"
    """`lufs`: integrated loudness of ITU-R BS.1770, weighted for the ear; `rms`: the unweighted power in dBFS"""

    @property
    def reach(self) -> tuple[float, float]:
        """Float files may exceed full scale."""
        return ABSOLUTE_GATE if self.kind == "lufs" else QUIETEST_DBFS, HIGHEST_LEVEL


class AudioSteadinessSettings(AudioMeasureSettings):
    """Length of a loudness window."""

    window_ms: Annotated[int, Field(ge=HOP_MS, le=10_000, multiple_of=HOP_MS, strict=True)] = 1_000
    """window length in milliseconds, a multiple of 100; the standard's momentary loudness uses 400, its short-term
    loudness 3000"""


@register_check(
    "audio_loudness",
    AudioLoudnessSettings,
    columns=AUDIO_COLUMNS,
    cost="heavy",
    examples=(
        Example("file:tone.wav", True, {"min": -16, "max": -6}, example_audio(tone(1))),
        Example("file:soft_tone.wav", False, {"min": -30}, example_audio(tone(1, amplitude=0.005))),
        Example("file:tone.wav", True, {"kind": "rms", "min": -9.04, "max": -9.02}, example_audio(tone(1))),
        Example("file:blip.wav", None, {"min": -30}, example_audio(tone(0.2))),
    ),
)
def audio_loudness(shard: pa.Table, settings: AudioLoudnessSettings) -> CheckVerdicts:
    """The loudness lies within the bounds: integrated, in LUFS, or with `kind: rms` the power in dBFS.

    LUFS are those of ITU-R BS.1770-5: K-weighted, blocks of 400 ms, gated at -70 LUFS and at 10 LU below the mean. Mono
    is one channel, not two equal ones: a 997 Hz sine at full scale reads -3.01 LUFS in one channel and 0 in both. Five
    and six channels are read in WAV order; other numbers, and audio shorter than 0.4 s, stay unscored. Silence, and
    everything below the gate, reads -70 LUFS, the minimum.

    RMS is over all samples of all channels, without weights or gates: a full-scale sine reads -3.01 dBFS, silence -120.
    """
    if settings.kind == "rms":
        return judge_audio(shard, settings, "power in dBFS", _rms)
    return judge_audio(shard, settings, "loudness in LUFS", _integrated)


@register_check(
    "audio_loudness_steadiness",
    AudioSteadinessSettings,
    columns=AUDIO_COLUMNS,
    cost="heavy",
    examples=(
        Example("file:even_tone.wav", True, {"max": 2}, example_audio(tone(3))),
        Example(
            "file:tone_that_drops.wav", False, {"max": 2}, example_audio(np.append(tone(2), tone(2, amplitude=0.1)))
        ),
        Example("file:silence.wav", None, {"max": 2}, example_audio(np.zeros(24_000))),
    ),
)
def audio_loudness_steadiness(shard: pa.Table, settings: AudioSteadinessSettings) -> CheckVerdicts:
    """The loudness is steady: the standard deviation of the windows' loudness, in LU, lies within the bounds.

    A window of `window_ms` begins every 100 ms; each has its K-weighted loudness, as in `audio_loudness`. Windows below
    -70 LUFS or more than 20 LU below the mean are pauses and do not count (the gates of EBU Tech 3342; its loudness
    range uses percentiles, this check the deviation, divided by the number of windows). Audio shorter than two windows,
    or with fewer than two windows that count, stays unscored. Speech varies by nature: measure good recordings before
    you set a bound.
    """
    hop_count = settings.window_ms // HOP_MS

    def measure(recording: Recording) -> float:
        hops = hop_powers(recording)
        if len(hops) < 2 * hop_count:
            raise UnusableAudio(f"too short: found {len(hops) / 10:g} s, at least {hop_count / 5:g} s required")
        heard = gated(window_powers(hops, hop_count), STEADINESS_GATE)
        if len(heard) < 2:
            raise UnusableAudio(f"too silent: found {len(heard)} windows above the gate, at least 2 required")
        return float(np.std(loudness(heard)))

    return judge_audio(shard, settings, "deviation in LU", measure)


def _integrated(recording: Recording) -> float:
    blocks = window_powers(hop_powers(recording), GATING_HOPS)
    if not len(blocks):
        raise UnusableAudio("too short: found less than 0.4 s, at least 0.4 s required")
    heard = gated(blocks, INTEGRATED_GATE)
    return float(loudness(np.array([heard.mean() if len(heard) else 0.0]))[0])


def _rms(recording: Recording) -> float:
    powers, lengths = frame_powers(recording, HOP_MS)
    return decibels(float(powers @ lengths / lengths.sum()))


HOPS_A_BLOCK = 8  # with the warm-up 48,000 samples at 48 kHz: longer transforms do not fit a core's cache
WARM_UP_HOPS = 2  # after 0.2 s the filter's memory is below 1e-20: its slowest pole falls by 240 nepers/s
GATING_HOPS = 4  # a gating block is 400 ms; one begins every 100 ms
ABSOLUTE_GATE = -70.0  # LUFS
CHANNEL_WEIGHTS = {  # table 3; channels in the order of WAV: left, right, centre, low frequencies, surrounds
    1: (1.0,),
    2: (1.0, 1.0),
    5: (1.0, 1.0, 1.0, 1.41, 1.41),
    6: (1.0, 1.0, 1.0, 0.0, 1.41, 1.41),
}
Biquad = tuple[tuple[float, float, float], tuple[float, float, float]]  # numerator, denominator


def hop_powers(recording: Recording) -> Samples:
    """K-weighted power of each whole 100 ms, summed over the weighted channels: (hop,).

    Raises `UnusableAudio` for a number of channels without weights, and for unreadable samples.
    """
    weights = CHANNEL_WEIGHTS.get(recording.channel_count)
    if weights is None:
        raise UnusableAudio(
            f"found {counted(recording.channel_count, 'channel')}, expected 1, 2, 5 or 6 to weight them"
        )
    hop = round(recording.sample_rate / 10)
    warm_up, size = WARM_UP_HOPS * hop, (WARM_UP_HOPS + HOPS_A_BLOCK) * hop
    response = k_response(recording.sample_rate, size)
    # Overlap-save: the first part of each stretch only fills the filter's memory and absorbs the circular wrap.
    stretch = np.zeros((recording.channel_count, size))
    powers = []
    for block in recording.blocks(HOPS_A_BLOCK * hop):
        stretch[:, warm_up : warm_up + len(block)] = block.T
        stretch[:, warm_up + len(block) :] = 0.0
        hop_count = len(block) // hop
        if not stretch.any():
            powers.append(np.zeros(hop_count))
            continue
        weighted = np.fft.irfft(np.fft.rfft(stretch) * response, size)[:, warm_up:]
        hops = weighted.reshape(recording.channel_count, HOPS_A_BLOCK, hop)[:, :hop_count]
        powers.append(np.array(weights) @ np.einsum("ijk,ijk->ij", hops, hops) / hop)
        stretch[:, :warm_up] = stretch[:, len(block) : len(block) + warm_up].copy()
    return np.concatenate([np.zeros(0), *powers])


@lru_cache(maxsize=4)
def k_response(sample_rate: int, size: int) -> NDArray[np.complex128]:
    """Frequency response of K-weighting for a real Fourier transform of that size: (size // 2 + 1,)."""
    delays = np.exp(-2j * pi * np.arange(size // 2 + 1) / size)  # one sample of delay
    powers = np.stack([np.ones_like(delays), delays, delays**2])
    response = np.ones_like(delays)
    for numerator, denominator in k_filters(sample_rate):
        response *= (np.array(numerator) @ powers) / (np.array(denominator) @ powers)
    return np.asarray(response, np.complex128)


def k_filters(sample_rate: int) -> tuple[Biquad, Biquad]:
    """Both filters of K-weighting: the shelf for the head and the high-pass.

    The standard gives them for 48 kHz. These are the underlying analogue filters, transformed bilinearly for any rate.
    """
    return _shelf(sample_rate), _high_pass(sample_rate)


def _shelf(sample_rate: int) -> Biquad:
    tangent, quality = tan(pi * 1681.974450955533 / sample_rate), 0.7071752369554196
    high = 10 ** (3.999843853973347 / 20)
    band = high**0.4996667741545416
    scale, (first, second) = _denominator(tangent, quality)
    numerator = (
        (high + band * tangent / quality + tangent**2) / scale,
        2 * (tangent**2 - high) / scale,
        (high - band * tangent / quality + tangent**2) / scale,
    )
    return numerator, (1.0, first, second)


def _high_pass(sample_rate: int) -> Biquad:
    tangent, quality = tan(pi * 38.13547087602444 / sample_rate), 0.5003270373238773
    _, (first, second) = _denominator(tangent, quality)
    return (1.0, -2.0, 1.0), (1.0, first, second)


def _denominator(tangent: float, quality: float) -> tuple[float, tuple[float, float]]:
    scale = 1 + tangent / quality + tangent**2
    return scale, (2 * (tangent**2 - 1) / scale, (1 - tangent / quality + tangent**2) / scale)


def window_powers(hops: Samples, hop_count: int) -> Samples:
    """Mean power of each window of `hop_count` hops, one per hop: (window,), empty if there are too few hops."""
    if len(hops) < hop_count:
        return np.zeros(0)
    return np.asarray(np.lib.stride_tricks.sliding_window_view(hops, hop_count).mean(axis=1))


def loudness(powers: Samples) -> Samples:
    """Loudness in LUFS of each power, at least `ABSOLUTE_GATE`: same shape."""
    return np.asarray(-0.691 + 10 * np.log10(np.maximum(powers, _power_of(ABSOLUTE_GATE))))


def gated(powers: Samples, below_mean: float) -> Samples:
    """Powers above the absolute gate and above the relative one, `below_mean` LU below their mean."""
    heard = powers[powers > _power_of(ABSOLUTE_GATE)]
    return heard[heard > heard.mean() * 10 ** (-below_mean / 10)] if len(heard) else heard


def _power_of(lufs: float) -> float:
    return float(10 ** ((lufs + 0.691) / 10))
