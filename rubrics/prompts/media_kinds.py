"""Format, size and maximum cost of an image or a sound, from its bytes."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["image", "audio"]

FORMS: dict[Kind, dict[str, str]] = {  # formats accepted by endpoints, each with its name in a request
    "image": {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WebP": "image/webp"},
    "audio": {"WAV": "wav", "MP3": "mp3"},
}
_EXPECTED = {
    "image": "a PNG, JPEG, GIF or WebP image",
    "audio": "a WAV or MP3 sound",
    None: "a PNG, JPEG, GIF or WebP image, or a WAV or MP3 sound",
}

# The most expensive documented billing of an image is gpt-4o-mini's: the image is fit into 2048 x 2048 and shrunk until
# the shorter side has 768 pixels; it costs a base amount and an amount per tile of 512 x 512. Small images may be
# enlarged (not documented), so the minimum is that of a 768 square. Billing by patches (at most 10,000 at 2.46 each, or
# 16,384) costs less.
TILE_TOKENS, FIRST_TOKENS = 5_667, 2_833
FIT_PIXELS, SHORT_SIDE_PIXELS, TILE_PIXELS = 2_048, 768, 512
FEWEST_TILES, MOST_TILES = 4, 8
MOST_IMAGE_TOKENS = 50_000  # bound for an image of unknown size
USUAL_IMAGE_TOKENS = 1_445  # cost of the largest image in gpt-4o's family
# Documented token rates are 10 per second (gpt-audio), 25 (Qwen2-Audio) and 32 (Gemini).
MOST_SOUND_TOKENS, USUAL_SOUND_TOKENS = 50, 32
# Sound tokens have their own price: at most 56.7 times that of a text token, among the listed models.
SOUND_PRICE_FACTOR = 60
FEWEST_BYTES_A_SECOND = 1_000  # lowest rate of MP3, 8 kbit/s; the length in its header may be wrong

_MARKS = (
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"ID3", "MP3"),
    (b"%PDF", "PDF"),
    (b"fLaC", "FLAC"),
    (b"OggS", "OGG"),
    (b"FORM", "AIFF"),
    (b"BM", "BMP"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"\0\0\1\0", "an icon"),
    (b"PK\3\4", "ZIP"),
    (b"\x1f\x8b", "gzip"),
)
_RIFF = {b"WAVE": "WAV", b"WEBP": "WebP", b"AVI ": "AVI"}
_MARKUP = ((b"<svg", "SVG"), (b"<!doctype html", "HTML"), (b"<html", "HTML"), (b"<?xml", "XML"), (b"{", "JSON"))
_TEXT_BYTES = 512  # first bytes, which distinguish text from other content
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_ALONE = frozenset((0x01, *range(0xD0, 0xD9)))  # markers without a segment


class UnreadableMedia(Exception):
    """An image or a sound of a case cannot be shown to a judge; the message is the verdict's reason."""


@dataclass(frozen=True, slots=True)
class DetectedKind:
    """Kind of some bytes. most_tokens: upper bound of the cost, in text tokens; usual_tokens: expected cost."""

    kind: Kind
    form: str  # one of FORMS
    most_tokens: int
    usual_tokens: int


def detect_kind(content: bytes, expected: Kind | None) -> DetectedKind:
    """Check the format of some bytes. expected: None for either kind. Raises `UnreadableMedia`."""
    form = format_name(content)
    kind = next((kind for kind, forms in FORMS.items() if form in forms), None)
    if kind is None or expected not in (None, kind):
        raise UnreadableMedia(f"found {form}, expected {_EXPECTED[expected]}")
    if kind == "image":
        return DetectedKind(kind, form, most_image_tokens(image_size(content, form)), USUAL_IMAGE_TOKENS)
    duration_s = _duration_s(content, form)
    longest_s = max(duration_s, len(content) / FEWEST_BYTES_A_SECOND if form == "MP3" else 0)
    most_tokens = math.ceil(longest_s + 1) * MOST_SOUND_TOKENS * SOUND_PRICE_FACTOR
    return DetectedKind(kind, form, most_tokens, math.ceil(duration_s) * USUAL_SOUND_TOKENS)


def _duration_s(content: bytes, form: str) -> float:
    from gradebook.rubrics.check_kit.audio_reading import UnusableAudio, open_recording

    try:
        with open_recording(content) as recording:
            recording.refuse_strange_header()
            if recording.format != form:
                raise UnreadableMedia(f"found {recording.format}, expected {_EXPECTED['audio']}")
            return recording.frame_count / recording.sample_rate
    except UnusableAudio as error:
        raise UnreadableMedia(f"found a broken {form}, expected {_EXPECTED['audio']}: {error}") from None


def format_name(content: bytes) -> str:
    """Name a file's format by its first bytes, for a message; one of FORMS if endpoints accept it."""
    if not content:
        return "an empty file"
    if content.startswith(b"RIFF"):
        return _RIFF.get(content[8:12], "RIFF")
    if content[4:8] == b"ftyp":
        return "an image or a video in a box (HEIC, AVIF, MP4)"
    form = next((name for mark, name in _MARKS if content.startswith(mark)), None)
    # The first eleven bits of a frame of MPEG audio, then a version that exists, and layer III.
    is_frame = len(content) > 1 and content[0] == 0xFF and content[1] & 0xE6 == 0xE2 and content[1] & 0x18 != 0x08
    return form or ("MP3" if is_frame else _name_text(content))


def _name_text(content: bytes) -> str:
    start = content[:_TEXT_BYTES].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if start.startswith(b"<?xml") and b"<svg" in start:
        return "SVG"
    for mark, name in _MARKUP:
        if start.startswith(mark):
            return name
    is_text = not any(byte < 32 and byte not in b"\t\n\r\f" for byte in start)
    return "text" if is_text else "unknown bytes"


def image_size(content: bytes, form: str) -> tuple[int, int] | None:
    """Width and height in pixels, from the header; None if it cannot be read."""
    width, height = _SIZES[form](content) or (0, 0)
    return (width, height) if width > 0 and height > 0 else None


def most_image_tokens(size: tuple[int, int] | None) -> int:
    """Maximum cost of an image, in tokens. size: in pixels; None if unknown."""
    if size is None:
        return MOST_IMAGE_TOKENS
    longer, shorter = max(size), min(size)
    scale = min(1.0, FIT_PIXELS / longer)
    scale *= min(1.0, SHORT_SIDE_PIXELS / (shorter * scale))
    tiles = math.prod(math.ceil(side * scale / TILE_PIXELS - 1e-9) for side in size)
    return FIRST_TOKENS + TILE_TOKENS * min(MOST_TILES, max(FEWEST_TILES, tiles))


def _png_size(content: bytes) -> tuple[int, int] | None:
    if content[12:16] != b"IHDR" or len(content) < 24:
        return None
    return int.from_bytes(content[16:20]), int.from_bytes(content[20:24])


def _gif_size(content: bytes) -> tuple[int, int] | None:
    return int.from_bytes(content[6:8], "little"), int.from_bytes(content[8:10], "little")


def _webp_size(content: bytes) -> tuple[int, int] | None:
    chunk, head = content[12:16], content[20:30]
    if len(head) < 10:
        return None
    if chunk == b"VP8X":
        return 1 + int.from_bytes(head[4:7], "little"), 1 + int.from_bytes(head[7:10], "little")
    if chunk == b"VP8L":
        bits = int.from_bytes(head[1:5], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if chunk == b"VP8 " and head[3:6] == b"\x9d\x01\x2a":
        return int.from_bytes(head[6:8], "little") & 0x3FFF, int.from_bytes(head[8:10], "little") & 0x3FFF
    return None


def _jpeg_size(content: bytes) -> tuple[int, int] | None:
    for marker, start in _jpeg_segments(content):
        if marker in _JPEG_FRAMES and len(content) >= start + 7:
            return int.from_bytes(content[start + 5 : start + 7]), int.from_bytes(content[start + 3 : start + 5])
    return None


def _jpeg_segments(content: bytes) -> Iterator[tuple[int, int]]:
    """Markers of a JPEG file up to the image data, each with the position of its segment's length."""
    position = 2
    while position + 4 <= len(content) and content[position] == 0xFF:
        marker = content[position + 1]
        if marker == 0xFF:  # padding
            position += 1
        elif marker in _JPEG_ALONE:
            position += 2
        else:
            yield marker, position + 2
            position += 2 + max(2, int.from_bytes(content[position + 2 : position + 4]))


_SIZES = {"PNG": _png_size, "GIF": _gif_size, "WebP": _webp_size, "JPEG": _jpeg_size}
