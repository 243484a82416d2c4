"""Checks of the loudness of audio, and of its steadiness."""

from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from gradebook.rubrics.check_kit.audio_reading import Recording, UnusableAudio
from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, register_check
from gradebook.rubrics.checks.audio.measuring import (
    AUDIO_COLUMNS,
    QUIETEST_DBFS,
    AudioMeasureSettings,
    decibels,
    frame_powers,
    judge_audio,
)
from gradebook.rubrics.checks.audio.waves import shown, tone
from gradebook.rubrics.checks.audio.weighting import (
    ABSOLUTE_GATE,
    GATING_HOPS,
    gated,
    hop_powers,
    loudness,
    window_powers,
)

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
        Example("file:tone.wav", True, {"min": -16, "max": -6}, shown(tone(1))),
        Example("file:soft_tone.wav", False, {"min": -30}, shown(tone(1, amplitude=0.005))),
        Example("file:tone.wav", True, {"kind": "rms", "min": -9.04, "max": -9.02}, shown(tone(1))),
        Example("file:blip.wav", None, {"min": -30}, shown(tone(0.2))),
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
        Example("file:even_tone.wav", True, {"max": 2}, shown(tone(3))),
        Example("file:tone_that_drops.wav", False, {"max": 2}, shown(np.append(tone(2), tone(2, amplitude=0.1)))),
        Example("file:silence.wav", None, {"max": 2}, shown(np.zeros(24_000))),
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
