"""Images and sounds named as files in a prompt, inserted into its messages: an endpoint cannot read local files."""

import base64
from typing import Any

from gradebook.rubrics.prompts.media import MOST_CASE_BYTES, MOST_MEDIUM_BYTES, Fetch, media_source
from gradebook.rubrics.prompts.media_kinds import FORMS, UnreadableMedia, know_kind

FILE = "file:"


def with_files(messages: list[dict[str, Any]], fetch: Fetch) -> list[dict[str, Any]]:
    """Replace each `file:NAME` in the messages by the file's content; everything else stays unchanged.

    Raises `UnreadableMedia`, which names the file.
    """
    filling = _Filling(fetch)
    return [
        message | {"content": [filling.fill(part) for part in message["content"]]}
        if isinstance(message.get("content"), list)
        else message
        for message in messages
    ]


class _Filling:
    """Fills parts, within the byte limit of a case."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._left = MOST_CASE_BYTES

    def fill(self, part: Any) -> Any:
        kind, source = media_source(part)
        if kind is None or source[: len(FILE)].lower() != FILE:
            return part
        name = source[len(FILE) :]
        try:
            content = self._fetch(name, min(self._left, MOST_MEDIUM_BYTES))
            form = FORMS[kind][know_kind(content, kind).form]
        except UnreadableMedia as fault:
            raise UnreadableMedia(f"{FILE}{name[:100]}: {fault}") from None
        self._left -= len(content)
        coded = base64.b64encode(content).decode()
        if kind == "image":
            return part | {"image_url": part["image_url"] | {"url": f"data:{form};base64,{coded}"}}
        return part | {"input_audio": part["input_audio"] | {"data": coded, "format": form}}
