"""Embeddings of the judge on loopback: words hashed to directions, so that texts with common words are similar."""

import math
import zlib
from typing import Any

DIMENSIONS = 64


def embeddings_body(body: dict[str, Any], usage: dict[str, int]) -> dict[str, Any]:
    """Body of a reply with a vector for each input."""
    size = body.get("dimensions", DIMENSIONS)
    vectors = [
        {"object": "embedding", "index": n, "embedding": _vector(each, size)} for n, each in enumerate(body["input"])
    ]
    tokens = {"prompt_tokens": usage["prompt_tokens"], "total_tokens": usage["prompt_tokens"]}
    return {"object": "list", "model": body["model"], "data": vectors, "usage": tokens}


def _vector(text: str, size: int) -> list[float]:
    vector = [0.0] * size
    for word in text.lower().split():
        vector[zlib.crc32(word.encode()) % size] += 1.0
    length = math.sqrt(sum(each * each for each in vector)) or 1.0
    return [3 * each / length for each in vector]  # not every model gives unit vectors
