"""Checks of texts for programs: JSON, XML, YAML, SQL, Python."""
