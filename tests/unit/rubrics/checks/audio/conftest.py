"""Calling a check of audio with one sound file."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import soundfile

from gradebook.rubrics.check_kit.check import CheckVerdicts, read_settings
from gradebook.rubrics.checks.registry import find_check

# A bound for each that its measure always reaches.
BOUNDS = {
    "audio_duration": {"min": 0},
    "audio_silence": {"min": 0},
    "audio_loudness": {"max": 20},
    "audio_loudness_steadiness": {"min": 0},
    "audio_clipping": {"min": 0},
    "audio_snr": {"min": -20},
}


@pytest.fixture
def found() -> Callable[..., CheckVerdicts]:
    """What a check says of one sound file."""

    def find(name: str, content: bytes | None, settings: dict[str, Any], fault: str | None = None) -> CheckVerdicts:
        shard = pa.table({"audio": pa.array([content], pa.binary()), "audio_fault": pa.array([fault], pa.string())})
        return find_check(name).function(shard, read_settings(find_check(name), settings))

    return find


@pytest.fixture
def verdict_of(found: Callable[..., CheckVerdicts]) -> Callable[..., bool | None]:
    return lambda name, content, settings: found(name, content, settings).is_passed[0].as_py()


@pytest.fixture
def measured(found: Callable[..., CheckVerdicts]) -> Callable[..., float]:
    """The number that a check measured: the last word of its evidence."""

    def measure(name: str, content: bytes, **settings: object) -> float:
        verdicts = found(name, content, {**BOUNDS[name], **settings})
        assert verdicts.is_passed[0].as_py(), (verdicts.reasons, verdicts.evidence)
        return float(verdicts.evidence[0].as_py().split()[-1])

    return measure


@pytest.fixture
def reason_of(found: Callable[..., CheckVerdicts]) -> Callable[..., str]:
    """Why a check could not tell."""

    def read(name: str, content: bytes | None, fault: str | None = None, **settings: object) -> str:
        verdicts = found(name, content, {**BOUNDS[name], **settings}, fault)
        assert verdicts.is_passed[0].as_py() is None
        return str(verdicts.reasons[0].as_py())

    return read


@pytest.fixture
def file_of() -> Callable[..., bytes]:
    """A sound file of any kind. samples: (frame,) or (frame, channel)."""

    def write(samples: np.ndarray, rate: int = 8_000, container: str = "WAV", subtype: str | None = None) -> bytes:
        file = io.BytesIO()
        soundfile.write(file, samples, rate, format=container, subtype=subtype)
        return file.getvalue()

    return write
