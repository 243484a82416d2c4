"""Pictures and sounds of a case: where they are found, what is refused, and how a judge is shown them."""

import hashlib
import json

import pytest

from gradebook.rubrics.prompts.media import MOST_MEDIA, has_media, part_cost, read_media
from gradebook.rubrics.prompts.media_kinds import UnreadableMedia
from gradebook.rubrics.prompts.prompt import Case, case_digest, render_messages
from tests.support.asked import TONE
from tests.support.law_over import law_over
from tests.support.media_samples import SOUND, audio_part, chat, coded, image_part, jpeg, mp3, png, text_part

FILES = {"cat.png": png(), "dog.jpg": jpeg(3, 2), "say.wav": SOUND, "say.mp3": mp3(), "page.png": b"<!doctype html>"}
PNG_URL = f"data:image/png;base64,{coded(png())}"
KEY = "0" * 32


def fetch(name, most_bytes):
    if name not in FILES:
        raise UnreadableMedia(f"no such file: {name!r}")
    return FILES[name]


def shown(prompt, output="Yes."):
    texts = read_media(prompt, output, fetch)
    return Case(texts.prompt, texts.output, media=texts.media)


def fault_of(prompt, output="Yes."):
    texts = read_media(prompt, output, fetch)
    assert texts.media == ()
    return texts.fault


def user_parts(case):
    return render_messages(case, TONE, KEY)[1]["content"]


@law_over("prompt", [None, "", "Why?", "[1]", '["image_url"]', "[" * 9_999 + '"image_url"', chat(), "[{}]"])
@law_over("output", ["", "See file:cat.png", "file: cat.png", "File:\na.py", "data:image/png is", "[]"])
def test_texts_without_media_stay_as_they_are(prompt, output):
    assert not has_media(prompt, output)
    assert read_media(prompt, output, fetch) == (prompt, output, (), None)


def test_the_messages_of_a_case_without_media_are_texts():
    assert [type(message["content"]) for message in render_messages(Case("Why?", "So."), TONE, KEY)] == [str, str]


@pytest.mark.parametrize(
    ("source", "form"),
    [
        ("file:cat.png", "PNG"),
        ("FILE:dog.jpg", "JPEG"),
        (PNG_URL, "PNG"),
        (f"data:image/gif;name=a;base64,\n{coded(png())}\r\n", "PNG"),
        ("https://example.org/a.png", ""),
    ],
)
def test_a_picture_of_a_prompt_is_found(source, form):
    case = shown(chat(text_part("What is it?"), image_part(source)))
    assert [(medium.kind, medium.place, medium.form) for medium in case.media] == [("image", "prompt", form)]


@law_over(
    ("output", "kind", "form"),
    [
        ("file:cat.png", "image", "PNG"),
        (" File:say.wav\r\n", "audio", "WAV"),
        ("file:say.mp3", "audio", "MP3"),
        (f" data:audio/x-wav;codecs=1;base64,{coded(SOUND)}\n", "audio", "WAV"),
        (PNG_URL, "image", "PNG"),
        (json.dumps([image_part("file:dog.jpg")]), "image", "JPEG"),
        (json.dumps([audio_part(coded(SOUND))]), "audio", "WAV"),
    ],
)
def test_a_picture_or_sound_that_is_an_output_is_found_by_its_bytes(output, kind, form):
    case = shown("Draw it.", output)
    assert [(medium.kind, medium.place, medium.form) for medium in case.media] == [(kind, "output", form)]
    assert case.output == f"[{kind} 1]"


def test_placeholders_stand_where_the_parts_were():
    prompt = chat(text_part("Compare"), image_part(PNG_URL), audio_part("file:say.wav"))
    case = shown(prompt, json.dumps([text_part("So \N{GREEK SMALL LETTER PI}:"), image_part("file:cat.png")]))
    assert [part.get("image_url") or part.get("input_audio") for part in json.loads(case.prompt)[0]["content"]] == [
        None,
        "[image 1]",
        "[audio 2]",
    ]
    assert case.output == "So \N{GREEK SMALL LETTER PI}:\n[image 3]"


def test_an_address_in_an_output_stays_text_and_no_one_fetches_it():
    output = json.dumps([image_part("https://evil.test/a.png"), text_part("Look."), image_part(PNG_URL)])
    case = shown(None, output)
    urls = [part["image_url"]["url"] for part in user_parts(case) if part["type"] == "image_url"]
    assert "https://evil.test/a.png" in case.output
    assert urls == [PNG_URL]


def test_an_output_of_addresses_alone_is_text():
    output = json.dumps([image_part("http://169.254.169.254/latest"), image_part("cat.png")])
    assert shown(None, output) == Case(None, output)


def test_parts_follow_the_case_and_precede_the_criterion():
    parts = user_parts(shown(chat(image_part("file:cat.png")), "file:say.wav"))
    assert [part["type"] for part in parts] == ["text", "text", "image_url", "text", "input_audio", "text"]
    assert parts[0]["text"].startswith("CASE\n{")
    assert parts[1]["text"].startswith("[image 1] of CASE follows; it stands in the prompt.")
    assert parts[2] == image_part(PNG_URL)
    assert parts[3]["text"].startswith("[audio 2] of CASE follows; it stands in the output.")
    assert parts[4] == audio_part(coded(SOUND))
    assert parts[5]["text"].startswith("CRITERION\n{")


def test_the_texts_of_a_case_with_media_are_those_of_the_prompt_file():
    parts = user_parts(shown("Draw it.", "file:cat.png"))
    plain = render_messages(Case("Draw it.", "[image 1]"), TONE, KEY)[1]["content"]
    assert f"{parts[0]['text']}\n\n{parts[-1]['text']}" == plain


def test_an_address_of_a_prompt_is_passed_on_as_it_stands():
    address = "https://example.org/a%20b.png?x=1&y=2"
    assert user_parts(shown(chat(image_part(address))))[2] == image_part(address)


def test_questions_about_a_case_share_the_text_of_its_pictures():
    one, other = (user_parts(shown(None, "file:cat.png"))[2]["image_url"]["url"] for _ in range(2))
    assert one is other


@law_over(
    ("source", "fault"),
    [
        ("file:page.png", "page.png: found HTML, expected a PNG, JPEG, GIF or WebP image"),
        ("file:say.wav", "say.wav: found WAV, expected a PNG, JPEG, GIF or WebP image"),
        ("file:gone.png", "gone.png: no such file: 'gone.png'"),
        ("data:image/png;base64,", "image 1 in the prompt: found an empty file, expected "),
        ("data:image/png;base64,a", "image 1 in the prompt: found no base64: "),
        ("data:image/png;base64,@@@@", "image 1 in the prompt: found no base64: "),
        ("data:image/png,abc", "image 1 in the prompt: found data:image/png, expected data:...;base64,"),
        ("data:", "image 1 in the prompt: found data:, expected data:...;base64,"),
        (f"data:image/svg+xml;base64,{coded(b'<svg/>')}", "image 1 in the prompt: found SVG, expected "),
        ("cat.png", "image 1 in the prompt: found cat.png, expected file:NAME, data:image/...;base64, or http(s)://"),
        ("ftp://a.test/b", "image 1 in the prompt: found ftp://a.test/b, expected "),
        ("https://a.test/b c", "image 1 in the prompt: found https://a.test/b c, expected "),
        ("http://" + "a" * 9_000, "image 1 in the prompt: found http://aaa"),
        ("\u202ex", "image 1 in the prompt: found \\u202ex, expected "),
    ],
)
def test_what_can_not_be_shown_is_refused_by_name(source, fault):
    assert fault_of(chat(image_part(source))).startswith(f"unreadable_media: {fault}")


@pytest.mark.parametrize("data", ["https://a.test/b.wav", "x", "", coded(b"<html>")])
def test_a_sound_is_base64_or_a_file(data):
    assert fault_of(None, json.dumps([audio_part(data)])).startswith("unreadable_media: audio 1 in the output: found ")


def test_a_thousand_pictures_are_too_many():
    fault = fault_of(chat(*[image_part("file:cat.png")] * 1_000))
    assert fault == "unreadable_media: found 1000 images and sounds, expected at most 100"


def test_an_output_of_very_many_parts_is_a_text():
    output = json.dumps([image_part("data:x"), *[{}] * 10_000])
    assert read_media(None, output, fetch) == (None, output, (), None)


def test_a_hundred_pictures_are_shown():
    case = shown(chat(*[image_part("file:cat.png")] * MOST_MEDIA))
    assert [part["type"] for part in user_parts(case)].count("image_url") == MOST_MEDIA


@pytest.mark.parametrize("byte_count", [20_000_001, 100_000_000])
def test_a_picture_that_is_too_large_is_not_decoded(byte_count):
    fault = fault_of(None, "data:image/png;base64," + "A" * (byte_count * 4 // 3 // 4 * 4 + 8))
    assert fault.endswith("too large: found more than 20000000 bytes, expected at most that many")


def test_a_case_has_a_limit_of_its_own(monkeypatch):
    monkeypatch.setitem(FILES, "cat.png", png() + bytes(15_000_000))
    fault = fault_of(chat(*[image_part(f"data:image/png;base64,{coded(FILES['cat.png'])}")] * 3))
    expected = "too large: found more than 40000000 bytes in the case, expected at most that many"
    assert fault == f"unreadable_media: image 3 in the prompt: {expected}"


def test_another_picture_is_another_question(monkeypatch):
    before = case_digest(shown(None, "file:cat.png"))
    monkeypatch.setitem(FILES, "cat.png", png(shade=1))
    assert case_digest(shown(None, "file:cat.png")) != before


def test_a_picture_by_another_name_is_the_same_question(monkeypatch):
    monkeypatch.setitem(FILES, "kitten.png", png())
    assert case_digest(shown(None, "file:kitten.png")) == case_digest(shown(None, PNG_URL))


def test_a_case_without_media_keeps_its_digest():
    digest = hashlib.blake2b(b"4:Why?|3:So.|-|2:A.", digest_size=16).hexdigest()
    assert case_digest(Case("Why?", "So.", None, ("A.",))) == digest


def test_a_picture_that_changed_since_is_not_shown(monkeypatch):
    case = shown(None, "file:cat.png")
    monkeypatch.setitem(FILES, "cat.png", png(shade=2))
    with pytest.raises(UnreadableMedia, match=r"^unreadable_media: cat\.png: found another content than when the run"):
        user_parts(case)


def test_a_case_with_a_fault_can_not_be_asked_about():
    with pytest.raises(UnreadableMedia, match=r"^unreadable_media: x$"):
        user_parts(Case(None, "file:x", media_fault="unreadable_media: x"))


def test_the_texts_are_the_same_when_a_picture_is_gone(monkeypatch):
    prompt = chat(image_part("file:cat.png"), image_part(PNG_URL))
    before = shown(prompt)
    monkeypatch.delitem(FILES, "cat.png")
    after = read_media(prompt, "Yes.", fetch)
    assert after.fault
    assert (after.prompt, after.output) == (before.prompt, before.output)


def test_a_reply_that_came_is_read_without_a_look_at_the_pictures(monkeypatch):
    case = shown(None, "file:cat.png")
    monkeypatch.delitem(FILES, "cat.png")
    part = user_parts(case.unread)[2]
    assert (part, part_cost(part).most_tokens) == (image_part(""), 25_501)


def test_half_of_a_surrogate_pair_beside_a_picture_is_written_as_json_has_it():
    prompt = chat(image_part(PNG_URL))[:-1] + ',{"content":"\\ud800","role":"user"}]'
    assert "\\ud800" in shown(prompt).prompt


@pytest.mark.parametrize(("file", "most_tokens"), [("file:cat.png", 25_501), ("file:say.wav", 6_000)])
def test_a_part_knows_what_it_may_cost(file, most_tokens):
    assert part_cost(user_parts(shown(None, file))[2]).most_tokens == most_tokens


@pytest.mark.parametrize(
    ("part", "most_tokens"), [(image_part("https://a.test/b"), 50_000), (audio_part("A" * 4_000), 3 * 50 * 60)]
)
def test_a_part_that_nobody_looked_into_costs_the_most(part, most_tokens):
    assert part_cost(part).most_tokens == most_tokens
