"""Checks of audio defects: clipping and noise."""

from typing import Annotated

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from gradebook.rubrics.check_kit.audio_reading import Recording, UnusableAudio
from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, register_check
from gradebook.rubrics.checks.audio.measuring import AUDIO_COLUMNS, AudioMeasureSettings, frame_powers, judge_audio
from gradebook.rubrics.checks.audio.waves import EXAMPLE_RATE, shown, tone

INTEGER_BITS = {"PCM_S8": 8, "PCM_U8": 8, "PCM_16": 16, "PCM_24": 24, "PCM_32": 32}
NOISE_FRAME_MS = 50
NOISE_PERCENTILE, SIGNAL_PERCENTILE = 10, 90
LOWEST_SNR, HIGHEST_SNR = -20.0, 120.0  # dB
LEAST_FRAMES = 10


class AudioClippingSettings(AudioMeasureSettings):
    """Bounds on a share, 0 to 1, and the definition of clipping."""

    min_run: Annotated[int, Field(ge=1, strict=True)] = 3
    """minimum number of consecutive samples of a channel at full scale that count as clipped"""

    @property
    def reach(self) -> tuple[float, float]:
        return 0.0, 1.0


class AudioSnrSettings(AudioMeasureSettings):
    """Bounds in dB."""

    @property
    def reach(self) -> tuple[float, float]:
        return LOWEST_SNR, HIGHEST_SNR


def _speech_with_hum(hum: float) -> dict[str, bytes]:
    """Tone with a pause in the middle, and a hum throughout."""
    voice = np.concatenate([tone(0.5), np.zeros(EXAMPLE_RATE // 2), tone(0.5)])
    return shown(voice + tone(1.5, amplitude=hum, frequency=60))


@register_check(
    "audio_clipping",
    AudioClippingSettings,
    columns=AUDIO_COLUMNS,
    cost="heavy",
    examples=(
        Example("file:tone.wav", True, {"max": 0.001}, shown(tone(0.2))),
        Example("file:overdriven_tone.wav", False, {"max": 0.001}, shown(tone(0.2, amplitude=2, frequency=220))),
        Example("file:nothing.wav", None, {"max": 0.001}, shown(np.zeros(0))),
    ),
)
def audio_clipping(shard: pa.Table, settings: AudioClippingSettings) -> CheckVerdicts:
    """The share of clipped samples lies within the bounds.

    A sample is clipped if it belongs to a run of at least `min_run` samples of its channel at or beyond full scale, of
    either sign: the greatest number of an integer format, 1.0 of a float or compressed one. Audio that was clipped and
    then attenuated is not detected. Audio without samples stays unscored: "audio: found no samples".
    """
    return judge_audio(shard, settings, "share clipped", lambda recording: _clipped_share(recording, settings.min_run))


@register_check(
    "audio_snr",
    AudioSnrSettings,
    columns=AUDIO_COLUMNS,
    cost="heavy",
    examples=(
        Example("file:voice_with_faint_hum.wav", True, {"min": 30}, _speech_with_hum(0.005)),
        Example("file:voice_with_hum.wav", False, {"min": 30}, _speech_with_hum(0.1)),
        Example("file:silence.wav", None, {"min": 30}, shown(np.zeros(8_000))),
    ),
)
def audio_snr(shard: pa.Table, settings: AudioSnrSettings) -> CheckVerdicts:
    """The estimated signal-to-noise ratio, in dB, lies within the bounds.

    The ratio is an estimate, as the signal without its noise is unknown: the 10th percentile of the power of 50 ms
    frames is taken as noise, the 90th as signal plus noise. So at least a tenth has to be pauses and a tenth speech;
    without pauses, and for a constant tone or noise, the estimate is far too low. If the pauses are digital silence, it
    is 120, the maximum, whatever noise there is under the voice; the minimum is -20. Less than half a second, and
    digital silence throughout, stay unscored.
    """
    return judge_audio(shard, settings, "estimated SNR in dB", _estimated_snr)


def _clipped_share(recording: Recording, min_run: int) -> float:
    full_scale = 1 - 2.0 ** (1 - INTEGER_BITS[recording.subtype]) if recording.subtype in INTEGER_BITS else 1.0
    open_runs = [0] * recording.channel_count  # still open at the end of the last block
    clipped_count = sample_count = 0
    for block in recording.blocks():
        sample_count += block.size
        is_full = np.abs(block) >= full_scale
        if not any(open_runs) and not is_full.any():
            continue
        for channel in range(recording.channel_count):
            runs, open_runs[channel] = _runs(is_full[:, channel], open_runs[channel])
            clipped_count += int(runs[runs >= min_run].sum())
    if not sample_count:
        raise UnusableAudio("found no samples")
    return (clipped_count + sum(run for run in open_runs if run >= min_run)) / sample_count


def _runs(is_full: NDArray[np.bool_], carried: int) -> tuple[NDArray[np.int64], int]:
    """Lengths of the runs that end in a block, and of the run still open at its end, or 0.

    is_full: (frame,), at least one. carried: length so far of a run that continues from the previous block.
    """
    edges = np.diff(np.concatenate([[False], is_full, [False]]).astype(np.int8))
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    runs = (ends - starts).astype(np.int64)
    if carried and is_full[0]:
        runs[0] += carried
    elif carried:
        runs = np.append(carried, runs)
    if is_full[-1]:
        return runs[:-1], int(runs[-1])
    return runs, 0


def _estimated_snr(recording: Recording) -> float:
    powers, _ = frame_powers(recording, NOISE_FRAME_MS)
    if len(powers) < LEAST_FRAMES:
        raise UnusableAudio("too short: found less than 0.5 s, at least 0.5 s required")
    noise, loud = np.percentile(powers, [NOISE_PERCENTILE, SIGNAL_PERCENTILE])
    if loud == 0:
        raise UnusableAudio("found digital silence, expected speech and pauses")
    least, most = (10 ** (bound / 10) for bound in (LOWEST_SNR, HIGHEST_SNR))
    ratio = (loud - noise) / max(noise, loud / (2 * most))
    return float(10 * np.log10(np.clip(ratio, least, most)))
