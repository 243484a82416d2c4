"""Small synthetic sound files for the examples of the checks."""

import io
import wave

import numpy as np

from gradebook.rubrics.check_kit.audio_reading import Samples

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


def shown(samples: Samples) -> dict[str, bytes]:
    """Columns of an example row with this sound."""
    return {"audio": wave_file(samples)}
