"""Small sound files made by arithmetic: for the examples of the checks."""

import io
import wave

import numpy as np

from gradebook.rubrics.check_kit.audio_reading import Samples

EXAMPLE_RATE = 8_000


def tone(
    duration_s: float, amplitude: float = 0.5, frequency: float = 997.0, sample_rate: int = EXAMPLE_RATE
) -> Samples:
    """A sine: (frame,). At amplitude 1 it reaches full scale."""
    times = np.arange(round(duration_s * sample_rate)) / sample_rate
    return np.asarray(amplitude * np.sin(2 * np.pi * frequency * times))


def wave_file(samples: Samples, sample_rate: int = EXAMPLE_RATE) -> bytes:
    """A WAV file of 16 bits. samples: (frame,) or (frame, channel), in -1..1, clipped beyond."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1 if samples.ndim == 1 else samples.shape[1])
        writer.setsampwidth(2)
        writer.setframerate(sample_rate)
        writer.writeframes(np.clip(np.round(samples * 32768), -32768, 32767).astype("<i2").tobytes())
    return file.getvalue()


def shown(samples: Samples) -> dict[str, bytes]:
    """The columns of an example's row: its sound file."""
    return {"audio": wave_file(samples)}
