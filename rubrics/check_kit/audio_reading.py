"""Sound files read from memory, one block at a time."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_SAMPLES = 180_000_000  # samples of all channels together: a little over an hour of mono at 48 kHz
# Second limit, by file size: a small file can hold hours of silence, which takes as long to read as speech. One hour of
# Opus at 27 kbit/s has 14 samples per byte; MP3, FLAC and WAV have fewer.
FREE_SAMPLES = 8_000_000
SAMPLES_A_BYTE = 16
MOST_AMPLITUDE = 1e6  # full scale is 1; a float file with larger values does not hold sound
LOWEST_RATE, HIGHEST_RATE = 4_000, 192_000  # Hz; telephone speech has 8,000
BLOCK_SAMPLES = 1 << 17
MOST_CHANNELS = 64
# First bytes of the formats that libsndfile may parse. It knows many more, which are not used for speech.
MAGIC = (b"RIFF", b"RF64", b"fLaC", b"OggS", b"FORM", b"ID3")
SAME_FORMAT = {"WAVEX": "WAV", "RF64": "WAV"}

Samples = NDArray[np.float64]


class UnusableAudio(Exception):
    """The audio cannot be read or measured; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Opened sound file, readable once.

    frame_count: as stated in the header; a frame is one sample per channel.
    """

    format: str  # WAV, FLAC, OGG, MP3 or AIFF
    subtype: str  # PCM_16 and others, named as in libsndfile
    sample_rate: int  # Hz
    channel_count: int
    frame_count: int
    byte_count: int  # size of the file
    file: Any

    def blocks(self, size: int | None = None) -> Iterator[Samples]:
        """Yield the samples in order: (frame, channel), full scale is 1.

        Each block except the last has `size` frames (default: `BLOCK_SAMPLES` over all channels). A truncated file
        yields the samples that it has. Raises `UnusableAudio` if the file cannot be decoded, if a sample is NaN or far
        beyond full scale, and if there are too many samples.
        """
        frame_count = size or BLOCK_SAMPLES // self.channel_count
        read_count = 0
        while len(block := self._read(frame_count)):
            read_count += block.size
            self._refuse_length(read_count)
            if not self.subtype.startswith("PCM"):
                _refuse_strange_samples(block)
            yield block

    def refuse_strange_header(self) -> None:
        """Raise `UnusableAudio` if the header alone shows that measuring would take too long or be meaningless."""
        self._refuse_length(self.frame_count * self.channel_count)
        if self.channel_count > MOST_CHANNELS:
            raise UnusableAudio(f"found {self.channel_count} channels, at most {MOST_CHANNELS}")
        if not LOWEST_RATE <= self.sample_rate <= HIGHEST_RATE:
            raise UnusableAudio(
                f"found a sample rate of {self.sample_rate} Hz, expected {LOWEST_RATE} to {HIGHEST_RATE}"
            )

    def _refuse_length(self, sample_count: int) -> None:
        most = min(MOST_SAMPLES, FREE_SAMPLES + SAMPLES_A_BYTE * self.byte_count)
        if sample_count > most:
            of = "" if most == MOST_SAMPLES else f" of a file of {self.byte_count} bytes"
            raise UnusableAudio(f"too long to measure: found {sample_count} samples, at most {most}{of}")

    def _read(self, size: int) -> Samples:
        import soundfile

        try:
            return np.asarray(self.file.read(size, dtype="float64", always_2d=True))
        except soundfile.LibsndfileError as error:
            raise UnusableAudio(f"can't be decoded: {error.error_string}") from None


class _Bytes(io.BytesIO):
    """In-memory file that ignores a seek before its start, which broken headers cause.

    libsndfile detects the unchanged position. An exception could not pass through its C code and would only be printed.
    """

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        try:
            return super().seek(offset, whence)
        except (ValueError, OverflowError):
            return self.tell()


@contextmanager
def open_recording(content: bytes) -> Iterator[Recording]:
    """Open a sound file for the duration of a `with` block. Raises `UnusableAudio` for any other content."""
    import soundfile

    if not content.startswith(MAGIC) and not _begins_as_mpeg(content):
        raise UnusableAudio("found no WAV, FLAC, OGG, MP3 or AIFF file")
    try:
        file = soundfile.SoundFile(_Bytes(content))
    except soundfile.LibsndfileError as error:
        raise UnusableAudio(f"found no sound file: {error.error_string}") from None
    with file:
        kind = SAME_FORMAT.get(file.format, file.format)
        yield Recording(kind, file.subtype, file.samplerate, file.channels, file.frames, len(content), file)


def _begins_as_mpeg(content: bytes) -> bool:
    """Whether the content begins with the eleven sync bits of an MPEG audio frame."""
    return len(content) > 1 and content[0] == 0xFF and content[1] >= 0xE0


def _refuse_strange_samples(block: Samples) -> None:
    # Written so that NaN, which fails every comparison, is refused too.
    if not (block.min() >= -MOST_AMPLITUDE and block.max() <= MOST_AMPLITUDE):
        raise UnusableAudio("found a sample that is NaN, infinite or a million times full scale")
