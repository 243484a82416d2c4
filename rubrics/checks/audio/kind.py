"""Check of an output's audio format."""

from collections.abc import Iterable
from typing import Annotated, Literal, Self

import pyarrow as pa
from pydantic import Field, model_validator

from gradebook.rubrics.check_kit.audio_reading import Recording, UnusableAudio, open_recording
from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.rows import RowFinding, gather_rows
from gradebook.rubrics.checks.audio.measuring import AUDIO_COLUMNS, audio_rows
from gradebook.rubrics.checks.audio.waves import shown, tone

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
        Example("file:tone_8khz.wav", True, {"formats": ["WAV"], "channels": [1]}, shown(tone(0.1))),
        Example("file:tone_8khz.wav", False, {"sample_rates": [24000, 48000]}, shown(tone(0.1))),
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
    return gather_rows(_find(content, fault, settings) for content, fault in audio_rows(shard))


def _find(content: bytes | None, fault: str | None, settings: AudioFormatSettings) -> RowFinding:
    if content is None:
        return RowFinding(None, reason=fault)
    try:
        with open_recording(content) as recording:
            faults = list(_faults(recording, settings))
    except UnusableAudio as error:
        return RowFinding(False, str(error))
    return RowFinding(not faults, "; ".join(faults) or _describe(recording))


def _faults(recording: Recording, settings: AudioFormatSettings) -> Iterable[str]:
    asked = {
        "format": (recording.format, settings.formats),
        "subtype": (recording.subtype, settings.subtypes),
        "sample rate": (recording.sample_rate, settings.sample_rates),
        "channels": (recording.channel_count, settings.channels),
    }
    for name, (found, expected) in asked.items():
        if expected is not None and found not in expected:
            yield f"{name}: found {found}, expected {' or '.join(map(str, expected))}"


def _describe(recording: Recording) -> str:
    count = recording.channel_count
    channels = "1 channel" if count == 1 else f"{count} channels"
    return f"{recording.format} {recording.subtype}, {recording.sample_rate} Hz, {channels}"
