"""The demo that ships with gradebook: outputs, a rubric, ratings and judge replies, all made up for it."""
