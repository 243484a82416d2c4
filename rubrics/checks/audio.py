"""Checks of audio: its format, duration, silence, clipping and noise; measurement of each row's audio."""

import io
import wave
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field, model_validator

from gradebook.rubrics.check_kit.audio_reading import BLOCK_SAMPLES, Recording, Samples, UnusableAudio, open_recording
from gradebook.rubrics.check_kit.check import (
    CheckSettings,
    CheckVerdicts,
    Example,
    RowFinding,
    gather_rows,
    register_check,
)
from gradebook.rubrics.check_kit.columns import cut_text
from gradebook.rubrics.check_kit.measures import MeasureSettings, judge_measures

AUDIO_COLUMNS = ("audio", "audio_fault")
QUIETEST_DBFS = -120.0  # lower limit of all measures; digital silence has no logarithm
NO_AUDIO = "no audio"


class AudioMeasureSettings(MeasureSettings):
    """Bounds on a measure that is not negative."""

    @property
    def reach(self) -> tuple[float, float]:
        return 0.0, float("inf")


def judge_audio(
    shard: pa.Table, settings: MeasureSettings, name: str, measure: Callable[[Recording], float]
) -> CheckVerdicts:
    """Measure each row's audio and compare it with the bounds. Unmeasurable audio is unscored: "audio: ..."."""
    values: list[float | None] = []
    reasons: list[str | None] = []
    for content, fault in audio_rows(shard):
        value, reason = (None, fault) if content is None else _measure(content, measure)
        values.append(value)
        reasons.append(None if reason is None else cut_text(reason))
    return judge_measures(pa.array(values, pa.float64()), settings, name, pa.array(reasons, pa.string()))


def _measure(content: bytes, measure: Callable[[Recording], float]) -> tuple[float | None, str | None]:
    try:
        with open_recording(content) as recording:
            recording.refuse_strange_header()
            return measure(recording), None
    except UnusableAudio as error:
        return None, f"audio: {error}"


def audio_rows(shard: pa.Table) -> Iterator[tuple[bytes | None, str | None]]:
    """Sound file of each row, or the reason why there is none: "audio: ..."."""
    for content, fault in zip(*(shard.column(name) for name in AUDIO_COLUMNS), strict=True):
        yield content.as_py(), _describe_fault(fault.as_py()) if not content.is_valid else None


def _describe_fault(fault: str | None) -> str:
    return NO_AUDIO if fault is None else f"audio: {fault}"


def frame_powers(recording: Recording, frame_ms: int) -> tuple[Samples, Samples]:
    """Power of each frame, full scale squared, and its length in samples per channel. Both: (frame,).

    Power is the mean square over all channels. The last frame may be shorter. Raises `UnusableAudio` if there are no
    samples.
    """
    length = max(1, round(recording.sample_rate * frame_ms / 1000))
    size = length * max(1, BLOCK_SAMPLES // (length * recording.channel_count))
    measured_blocks = [_block_powers(block, length) for block in recording.blocks(size)]
    if not measured_blocks:
        raise UnusableAudio("found no samples")
    powers, lengths = zip(*measured_blocks, strict=True)
    return np.concatenate(powers), np.concatenate(lengths)


def _block_powers(block: Samples, length: int) -> tuple[Samples, Samples]:
    whole_count, rest_count = divmod(len(block), length)
    whole = block[: whole_count * length].reshape(whole_count, length * block.shape[1])
    powers = np.einsum("ij,ij->i", whole, whole) / (length * block.shape[1])
    lengths = np.full(whole_count, float(length))
    if rest_count:
        rest = block[whole_count * length :]
        powers, lengths = np.append(powers, np.mean(rest**2)), np.append(lengths, float(rest_count))
    return powers, lengths


def decibels(power: float) -> float:
    """Convert power to dBFS, at least `QUIETEST_DBFS`. power: full scale squared is 1."""
    return float(10 * np.log10(max(power, 10 ** (QUIETEST_DBFS / 10))))


EXAMPLE_RATE = 8_000


def tone(
    duration_s: float, amplitude: float = 0.5, frequency: float = 997.0, sample_rate: int = EXAMPLE_RATE
) -> Samples:
    """Sine wave: (frame,). Amplitude 1 is full scale."""
    times = np.arange(round(duration_s * sample_rate)) / sample_rate
    return np.asarray(amplitude * np.sin(2 * np.pi * frequency * times))


def wave_file(samples: Samples, sample_rate: int = EXAMPLE_RATE) -> bytes:
    """Encode a 16-bit WAV file. samples: (frame,) or (frame, channel), clipped to -1..1."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1 if samples.ndim == 1 else samples.shape[1])
        writer.setsampwidth(2)
        writer.setframerate(sample_rate)
        writer.writeframes(np.clip(np.round(samples * 32768), -32768, 32767).astype("<i2").tobytes())
    return file.getvalue()


def example_audio(samples: Samples) -> dict[str, bytes]:
    """Columns of an example row with this sound."""
    return {"audio": wave_file(samples)}


AudioFormat = Literal["WAV", "FLAC", "OGG", "MP3", "AIFF"]
AudioSubtype = Literal[
    "PCM_S8",
    "PCM_U8",
    "PCM_16",
    "PCM_24",
    "PCM_32",
    "FLOAT",
    "DOUBLE",
    "ULAW",
    "ALAW",
    "IMA_ADPCM",
    "MS_ADPCM",
    "GSM610",
    "VORBIS",
    "OPUS",
    "MPEG_LAYER_I",
    "MPEG_LAYER_II",
    "MPEG_LAYER_III",
]
PositiveCount = Annotated[int, Field(gt=0, strict=True)]


class AudioFormatSettings(CheckSettings):
    """Allowed formats; at least one setting is required."""

    formats: Annotated[tuple[AudioFormat, ...], Field(min_length=1)] | None = None
    """allowed containers: WAV, FLAC, OGG, MP3 or AIFF"""
    subtypes: Annotated[tuple[AudioSubtype, ...], Field(min_length=1)] | None = None
    """allowed encodings: PCM_16, PCM_24, FLOAT, OPUS and others, named as in libsndfile"""
    sample_rates: Annotated[tuple[PositiveCount, ...], Field(min_length=1)] | None = None
    """allowed sample rates, in Hz"""
    channels: Annotated[tuple[PositiveCount, ...], Field(min_length=1)] | None = None
    """allowed numbers of channels: 1 is mono, 2 is stereo"""

    @model_validator(mode="after")
    def _something_is_asked_for(self) -> Self:
        if not any((self.formats, self.subtypes, self.sample_rates, self.channels)):
            raise ValueError("found no setting, expected at least one of formats, subtypes, sample_rates and channels")
        return self


@register_check(
    "audio_format",
    AudioFormatSettings,
    columns=AUDIO_COLUMNS,
    cost="heavy",
    examples=(
        Example("file:tone_8khz.wav", True, {"formats": ["WAV"], "channels": [1]}, example_audio(tone(0.1))),
        Example("file:tone_8khz.wav", False, {"sample_rates": [24000, 48000]}, example_audio(tone(0.1))),
        Example("file:notes.txt", False, {"formats": ["WAV"]}, {"audio": b"To be spoken slowly."}),
        Example("file:gone.wav", None, {"formats": ["WAV"]}, {"audio_fault": "no such file: 'gone.wav'"}),
    ),
)
def audio_format(shard: pa.Table, settings: AudioFormatSettings) -> CheckVerdicts:
    """The output is a sound file of one of the given `formats`, `subtypes`, `sample_rates` and `channels`.

    The header is read, not the file name. WAV includes all its kinds (plain, extensible, RF64). A file of another
    format or with a broken header fails; a truncated one passes. An output that names no readable file stays unscored:
    "audio: ...".
    """
    return gather_rows(_judge_format(content, fault, settings) for content, fault in audio_rows(shard))


def _judge_format(content: bytes | None, fault: str | None, settings: AudioFormatSettings) -> RowFinding:
    if content is None:
        return RowFinding(None, reason=fault)
    try:
        with open_recording(content) as recording:
            faults = list(_faults(recording, settings))
    except UnusableAudio as error:
        return RowFinding(False, str(error))
    return RowFinding(not faults, "; ".join(faults) or _describe(recording))


def _faults(recording: Recording, settings: AudioFormatSettings) -> Iterable[str]:
    properties = {
        "format": (recording.format, settings.formats),
        "subtype": (recording.subtype, settings.subtypes),
        "sample rate": (recording.sample_rate, settings.sample_rates),
        "channels": (recording.channel_count, settings.channels),
    }
    for name, (value, expected) in properties.items():
        if expected is not None and value not in expected:
            yield f"{name}: found {value}, expected {' or '.join(map(str, expected))}"


def _describe(recording: Recording) -> str:
    count = recording.channel_count
    channels = "1 channel" if count == 1 else f"{count} channels"
    return f"{recording.format} {recording.subtype}, {recording.sample_rate} Hz, {channels}"


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
        Example("file:one_second.wav", True, {"min": 0.5, "max": 30}, example_audio(tone(1))),
        Example("file:one_second.wav", False, {"min": 2}, example_audio(tone(1))),
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
        Example("file:tone.wav", True, {"max": 0.2}, example_audio(tone(1))),
        Example(
            "file:pause_then_tone.wav",
            False,
            {"kind": "leading", "max": 0.5},
            example_audio(np.append(np.zeros(8000), tone(1))),
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
    elapsed = np.concatenate([[0.0], np.cumsum(lengths)])
    silences = elapsed[edges[1:]] - elapsed[edges[:-1] + 1]
    lengths_by_kind = {"leading": silences[0], "trailing": silences[-1], "longest": silences.max()}
    return float(lengths_by_kind[kind] / sample_rate)


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
    return example_audio(voice + tone(1.5, amplitude=hum, frequency=60))


@register_check(
    "audio_clipping",
    AudioClippingSettings,
    columns=AUDIO_COLUMNS,
    cost="heavy",
    examples=(
        Example("file:tone.wav", True, {"max": 0.001}, example_audio(tone(0.2))),
        Example(
            "file:overdriven_tone.wav", False, {"max": 0.001}, example_audio(tone(0.2, amplitude=2, frequency=220))
        ),
        Example("file:nothing.wav", None, {"max": 0.001}, example_audio(np.zeros(0))),
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
        Example("file:silence.wav", None, {"min": 30}, example_audio(np.zeros(8_000))),
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
    open_runs = [0] * recording.channel_count  # lengths of runs that the last block did not end
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
    """Lengths of the runs that end in a block, and the length of the unfinished run at its end, or 0.

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
