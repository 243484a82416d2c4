"""Counts with their nouns."""


def counted(count: int, one: str, many: str | None = None) -> str:
    """Count with its noun: 1 row, 2,000 rows."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
