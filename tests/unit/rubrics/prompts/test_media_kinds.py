"""What bytes say they are, how large a picture is, and what it may cost at most."""

import pytest

from gradebook.rubrics.prompts.media_kinds import (
    UnreadableMedia,
    detect_kind,
    format_name,
    image_size,
    most_image_tokens,
)
from tests.support.law_over import law_over
from tests.support.media_samples import SOUND, gif, jpeg, mp3, png, webp

ANY = "a PNG, JPEG, GIF or WebP image, or a WAV or MP3 sound"


@law_over(
    ("content", "form"),
    [
        (png(), "PNG"),
        (jpeg(3, 2), "JPEG"),
        (gif(3, 2), "GIF"),
        (b"GIF87a" + bytes(7), "GIF"),
        (webp(3, 2, b"VP8X"), "WebP"),
        (SOUND, "WAV"),
        (mp3(), "MP3"),
        (b"ID3\x04" + bytes(6), "MP3"),
        (b"", "an empty file"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG"),
        (b"\xef\xbb\xbf \n<?xml version='1.0'?><svg/>", "SVG"),
        (b"<?xml version='1.0'?><plist/>", "XML"),
        (b"<!DOCTYPE HTML><html>", "HTML"),
        (b"%PDF-1.7", "PDF"),
        (b"fLaC" + bytes(40), "FLAC"),
        (b"RIFF\0\0\0\0AVI ", "AVI"),
        (b"RIFF", "RIFF"),
        (b"\0\0\0\x1cftypheic", "an image or a video in a box (HEIC, AVIF, MP4)"),
        ("Grüße".encode(), "text"),
        (b'{"a": 1}', "JSON"),
        (bytes(8), "unknown bytes"),
        (b"\xff\xfe<\0h\0", "unknown bytes"),
        (b"\xff\xf1" + bytes(9), "unknown bytes"),
    ],
)
def test_bytes_are_named_by_what_they_begin_with(content, form):
    assert format_name(content) == form


@law_over(
    ("content", "size"),
    [
        (png(5, 3), (5, 3)),
        (jpeg(5, 3), (5, 3)),
        (gif(5, 3), (5, 3)),
        *((webp(5, 3, chunk), (5, 3)) for chunk in (b"VP8X", b"VP8L", b"VP8 ")),
        (png()[:20], None),
        (b"\xff\xd8\xff", None),
        (b"\xff\xd8\xff\xe0\x00\x00" * 9, None),
        (b"\xff\xd8\xff" + b"\xff" * 99, None),
        (b"GIF89a", None),
        (b"RIFF\0\0\0\0WEBPVP8X", None),
    ],
)
def test_the_size_of_a_picture_is_read_from_its_header(content, size):
    assert image_size(content, format_name(content)) == size


@law_over(
    ("size", "tokens"),
    [
        ((1, 1), 2_833 + 4 * 5_667),  # perhaps enlarged to 768 x 768
        ((1024, 1024), 2_833 + 4 * 5_667),  # 768 x 768: two tiles by two
        ((2048, 4096), 2_833 + 6 * 5_667),  # 768 x 1536: two by three
        ((9000, 3000), 2_833 + 8 * 5_667),  # 2048 x 683: four by two
        ((65_535, 1), 2_833 + 4 * 5_667),
        ((2**32 - 1, 2**32 - 1), 2_833 + 4 * 5_667),
        (None, 50_000),
    ],
)
def test_a_picture_is_bounded_by_the_dearest_way_of_billing_its_tiles(size, tokens):
    assert most_image_tokens(size) == tokens


def test_a_sound_is_bounded_by_its_length():
    known = detect_kind(SOUND, "audio")
    # A second and one more, 50 tokens each, each at most 60 times as dear as one of text.
    assert (known.form, known.most_tokens, known.usual_tokens) == ("WAV", 2 * 50 * 60, 32)


def test_an_mp3_is_bounded_by_its_bytes_since_its_header_may_lie():
    # 40 x 417 bytes are at most 16.68 s, and one more
    assert detect_kind(mp3(40), None).most_tokens == 18 * 50 * 60


@law_over(
    ("content", "expected", "fault"),
    [
        (b"<html>", "image", "found HTML, expected a PNG, JPEG, GIF or WebP image"),
        (b"<html>", None, f"found HTML, expected {ANY}"),
        (SOUND, "image", "found WAV, expected a PNG, JPEG, GIF or WebP image"),
        (png(), "audio", "found PNG, expected a WAV or MP3 sound"),
        (b"fLaC" + bytes(40), None, f"found FLAC, expected {ANY}"),
        (SOUND[:20], None, "found a broken WAV, expected a WAV or MP3 sound: "),
        (b"ID3\x04" + bytes(99), None, "found a broken MP3, expected a WAV or MP3 sound: "),
    ],
)
def test_bytes_that_are_no_picture_or_sound_are_refused_by_name(content, expected, fault):
    with pytest.raises(UnreadableMedia) as refused:
        detect_kind(content, expected)
    assert str(refused.value).startswith(fault)
