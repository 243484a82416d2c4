"""Texts laid out on a page: Markdown and JSON are readable, and no text brings markup, links or loads of its own."""

import base64
import json
import re
from pathlib import Path

from gradebook.tasks.datasets.media import MediaFiles
from gradebook.tasks.serving.rating_page import cards_of_steps, readable, readable_case
from tests.support.law_over import law_over
from tests.support.media_samples import SOUND, image_part, png

TAG = re.compile(r"<[^>]*>?")
KNOWN = re.compile(
    r'</?(p|h[1-6]|ul|ol|li|em|strong|code|pre|blockquote|hr|br|table|thead|tbody|tr|th|td)( /)?>|<p class="heading">'
)
HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg/onload=alert(1)>',
    "<a href='javascript:alert(1)' style='position:fixed'>a</a>",
    "</div></main><form action=/t/x><button>",
    "<!--",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;",
    "javascript:alert(1)",
    "https://evil.example/x.png",
    'x" onload="alert(1)',
    "[ref]: javascript:alert(1)\n\n[ref]",
)
AROUND = (
    "{}",
    "# {}",
    "- {}\n- b",
    "**{}**",
    "`{}`",
    "```{}\n{}\n```",
    "|a|\n|-|\n|{}|",
    "[a]({})",
    "![a]({})",
    "<{}>",
)


@law_over("form", AROUND)
def test_no_text_brings_a_tag_or_an_attribute_of_its_own(form: str):
    for hostile in HOSTILE:
        laid_out = readable(form.replace("{}", hostile) + "\n\n- a sign of Markdown").laid_out
        assert laid_out is not None
        assert [tag for tag in TAG.findall(laid_out) if not KNOWN.fullmatch(tag)] == []


@law_over(
    ("text", "shown"),
    [
        ("plain words, 2 * 3 = 6", None),
        ("# Title", '<p class="heading">Title</p>\n'),
        ("**bold**", "<p><strong>bold</strong></p>\n"),
        ('{"a": [1]}', "<pre>{\n  &#34;a&#34;: [\n    1\n  ]\n}</pre>"),
        ("{not json", None),
        ("[" * 10_000, None),
        ("- a\u202eb", "<ul>\n<li>a[U+202E]b</li>\n</ul>\n"),
    ],
)
def test_markdown_and_json_are_laid_out_and_prose_is_not(text: str, shown: str | None):
    assert readable(text).laid_out == shown


def test_images_and_sounds_are_embedded_and_nothing_is_fetched(tmp_path: Path):
    (tmp_path / "cat.png").write_bytes(png())
    (tmp_path / "reply.wav").write_bytes(SOUND)
    prompt = json.dumps([{"role": "user", "content": [image_part("file:cat.png"), image_part("https://a.example/b")]}])
    found = readable_case(prompt, "a transcript", "file:reply.wav", MediaFiles((tmp_path,)))
    cat, elsewhere = found.media
    assert cat.address == f"data:image/png;base64,{base64.b64encode(png()).decode()}"
    assert (elsewhere.address, elsewhere.reason) == (None, "https://a.example/b (not loaded)")
    (sound,) = found.output.media
    assert sound.address == f"data:audio/wav;base64,{base64.b64encode(SOUND).decode()}"
    (gone,) = readable_case(None, "a transcript", "file:../reply.wav", MediaFiles((tmp_path,))).output.media
    assert gone.address is None
    assert "expected one below the folder of the outputs" in gone.reason


def test_steps_are_cards_without_what_tells_of_the_model():
    steps = [{"kind": "tool", "name": "search", "input": "<b>", "output": "2 rooms", "error": None}] * 60
    found = cards_of_steps(json.dumps(steps))
    assert (found.step_count, len(found.cards), found.cards[20].left_out) == (60, 41, 20)
    assert found.cards[0].about == ""
    assert cards_of_steps(None).cards == ()


def test_fields_are_shown_ahead_of_the_output_that_has_them():
    shown = readable_case(None, '{"reply": "**Hi**"}', None, MediaFiles(()), ["reply", "other"]).output
    assert [(path, part.laid_out) for path, part in shown.fields] == [("reply", "<p><strong>Hi</strong></p>\n")]
