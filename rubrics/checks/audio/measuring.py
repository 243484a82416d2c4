"""Measurement of each row's audio."""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from gradebook.rubrics.check_kit.audio_reading import BLOCK_SAMPLES, Recording, Samples, UnusableAudio, open_recording
from gradebook.rubrics.check_kit.check import CheckVerdicts
from gradebook.rubrics.check_kit.evidence import cut_text
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
        yield content.as_py(), _fault_words(fault.as_py()) if not content.is_valid else None


def _fault_words(fault: str | None) -> str:
    return NO_AUDIO if fault is None else f"audio: {fault}"


def frame_powers(recording: Recording, frame_ms: int) -> tuple[Samples, Samples]:
    """Power of each frame, full scale squared, and its length in samples per channel. Both: (frame,).

    Power is the mean square over all channels. The last frame may be shorter. Raises `UnusableAudio` if there are no
    samples.
    """
    length = max(1, round(recording.sample_rate * frame_ms / 1000))
    size = length * max(1, BLOCK_SAMPLES // (length * recording.channel_count))
    parts = [_block_powers(block, length) for block in recording.blocks(size)]
    if not parts:
        raise UnusableAudio("found no samples")
    powers, lengths = zip(*parts, strict=True)
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
