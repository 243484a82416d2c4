"""Checks of the duration of audio and of its silence."""

from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from gradebook.rubrics.check_kit.audio_reading import Recording, Samples
from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, register_check
from gradebook.rubrics.checks.audio.measuring import (
    AUDIO_COLUMNS,
    QUIETEST_DBFS,
    AudioMeasureSettings,
    frame_powers,
    judge_audio,
)
from gradebook.rubrics.checks.audio.waves import shown, tone

SILENCE_FRAME_MS = 10
SilenceKind = Literal["share", "leading", "trailing", "longest"]
SILENCE_NAMES: dict[SilenceKind, str] = {
    "share": "share of silence",
    "leading": "seconds of leading silence",
    "trailing": "seconds of trailing silence",
    "longest": "seconds of the longest silence",
}


class AudioSilenceSettings(AudioMeasureSettings):
    """Threshold of silence, and the silence to measure."""

    kind: SilenceKind = "share"
    """`share`: of the whole, 0 to 1; `leading`, `trailing`, `longest`: seconds of silence at the beginning, at the end,
    or in the longest pause"""
    threshold_dbfs: Annotated[float, Field(gt=QUIETEST_DBFS, lt=0)] = -50.0
    """a frame of 10 ms with less power is silent; a sine at full scale has -3.01"""

    @property
    def reach(self) -> tuple[float, float]:
        return 0.0, 1.0 if self.kind == "share" else float("inf")


@register_check(
    "audio_duration",
    AudioMeasureSettings,
    columns=AUDIO_COLUMNS,
    cost="heavy",
    examples=(
        Example("file:one_second.wav", True, {"min": 0.5, "max": 30}, shown(tone(1))),
        Example("file:one_second.wav", False, {"min": 2}, shown(tone(1))),
        Example("file:gone.wav", None, {"min": 2}, {"audio_fault": "no such file: 'gone.wav'"}),
    ),
)
def audio_duration(shard: pa.Table, settings: AudioMeasureSettings) -> CheckVerdicts:
    """The audio lasts between `min` and `max` seconds.

    Decodable samples count, not the header: a truncated WAV file is as long as its content. A file without samples
    lasts 0 seconds. A file that is not audio, or cannot be decoded, stays unscored: "audio: ...".

    Audio that is too long to measure is unscored, here and in the other checks that measure audio: more than 180
    million samples in all channels (an hour at 48 kHz), or more than 8 million plus 16 for each byte of the file. The
    second limit affects very strong compression: minutes of silence, or long speech in Opus below 27 kbit/s.
    """
    return judge_audio(shard, settings, "duration in seconds", _duration)


@register_check(
    "audio_silence",
    AudioSilenceSettings,
    columns=AUDIO_COLUMNS,
    cost="heavy",
    examples=(
        Example("file:tone.wav", True, {"max": 0.2}, shown(tone(1))),
        Example(
            "file:pause_then_tone.wav",
            False,
            {"kind": "leading", "max": 0.5},
            shown(np.append(np.zeros(8000), tone(1))),
        ),
        Example("file:tone.wav", None, {"max": 0.2}, {"audio_fault": "no such file: 'tone.wav'"}),
    ),
)
def audio_silence(shard: pa.Table, settings: AudioSilenceSettings) -> CheckVerdicts:
    """The share of silence, or the length of a silence, lies within the bounds.

    A frame of 10 ms is silent if its power, the mean square over all channels, lies below `threshold_dbfs`. The power
    is not weighted for the ear. Completely silent audio has a share of 1, and its whole length is leading, trailing and
    longest silence. Audio without samples stays unscored: "audio: found no samples".
    """

    def measure(recording: Recording) -> float:
        powers, lengths = frame_powers(recording, SILENCE_FRAME_MS)
        is_silent = powers < 10 ** (settings.threshold_dbfs / 10)
        return _silence(is_silent, lengths, settings.kind, recording.sample_rate)

    return judge_audio(shard, settings, SILENCE_NAMES[settings.kind], measure)


def _duration(recording: Recording) -> float:
    return sum(len(block) for block in recording.blocks()) / recording.sample_rate


def _silence(is_silent: NDArray[np.bool_], lengths: Samples, kind: SilenceKind, sample_rate: int) -> float:
    """Amount of silence of that kind. is_silent, lengths (samples per channel): (frame,)."""
    if kind == "share":
        return float(lengths[is_silent].sum() / lengths.sum())
    heard = np.flatnonzero(~is_silent)
    # Silences are the gaps between frames with sound, and before the first and after the last of them.
    edges = np.concatenate([[-1], heard, [len(lengths)]])
    until = np.concatenate([[0.0], np.cumsum(lengths)])
    silences = until[edges[1:]] - until[edges[:-1] + 1]
    chosen = {"leading": silences[0], "trailing": silences[-1], "longest": silences.max()}
    return float(chosen[kind] / sample_rate)
