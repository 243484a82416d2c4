"""Digest by which prompts, questions and texts are known again."""

import hashlib


def digest_of(content: str | bytes) -> str:
    """Digest of bytes, or of a text in UTF-8, which may hold half of a surrogate pair; 32 hex digits."""
    encoded = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return hashlib.blake2b(encoded, digest_size=16).hexdigest()
