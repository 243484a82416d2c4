"""Row: values of a file or table under their column names."""

from typing import Any

Row = dict[str, Any]
