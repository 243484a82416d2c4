"""Checks of the language and the script. `language_of` detects the language of texts for other packages too."""
