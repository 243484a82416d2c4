"""Checks of length: words, characters, lines, tokens, sentences, paragraphs."""
