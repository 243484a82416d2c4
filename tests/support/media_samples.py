"""Pictures and sounds for tests, and a judge on loopback that takes them as content parts."""

import base64
import json
import struct
import zlib
from typing import Any

from aiohttp import web

from gradebook.rubrics.checks.audio import tone, wave_file
from tests.support.loopback_judge import LoopbackJudge

SOUND = wave_file(tone(1))


def png(width: int = 2, height: int = 2, shade: int = 0) -> bytes:
    """A grey picture of one shade."""
    rows = b"".join(b"\0" + bytes([shade]) * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks
    )


def jpeg(width: int, height: int) -> bytes:
    """Bytes of a JPEG file before its frame: those of a thumbnail, which are not the image's own."""
    decoy = b"\xff\xc0\x00\x11\x08\x00\x01\x00\x01"
    head = b"\xff\xd8\xff\xe1" + struct.pack(">H", 2 + len(decoy)) + decoy
    return head + b"\xff\xff\xc2\x00\x11\x08" + struct.pack(">HH", height, width) + b"\x03" * 12


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0;"


def webp(width: int, height: int, chunk: bytes) -> bytes:
    """A WebP file of one of its three kinds."""
    heads = {
        b"VP8X": b"\0" * 4 + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"),
        b"VP8L": b"\x2f" + (width - 1 | (height - 1) << 14).to_bytes(4, "little") + b"\0" * 5,
        b"VP8 ": b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height),
    }
    return b"RIFF" + struct.pack("<I", 22) + b"WEBP" + chunk + struct.pack("<I", 10) + heads[chunk]


def mp3(frame_count: int = 40) -> bytes:
    """Silence at 128 kbit/s and 44.1 kHz."""
    return (b"\xff\xfb\x90\x64" + b"\0" * 413) * frame_count


def coded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def image_part(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def audio_part(source: str, form: str = "wav") -> dict[str, Any]:
    return {"type": "input_audio", "input_audio": {"data": source, "format": form}}


def text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def chat(*parts: dict[str, Any]) -> str:
    """A prompt of one message, as it is stored."""
    return json.dumps([{"content": list(parts), "role": "user"}], sort_keys=True, separators=(",", ":"))


class SeeingJudge(LoopbackJudge):
    """A judge that takes content parts."""

    async def _completion(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        prompt = "\n".join(part["text"] for part in parts_of(body) if part["type"] == "text")
        self.bodies.append(body)
        self.counts[prompt] += 1
        return await self._answer(request, body, prompt)


def parts_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The content parts of a request's messages, texts among them."""
    contents = [message["content"] for message in body["messages"]]
    return [part for each in contents for part in ([text_part(each)] if isinstance(each, str) else each)]
