"""Whether the numbers can be trusted: completeness, provenance, replies."""
