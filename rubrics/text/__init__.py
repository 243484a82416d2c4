"""Texts of files and messages: YAML with line numbers, and validation errors in plain words.

tables              Table, table_of, table_from: tables for the terminal, pages, Markdown and the picture
yaml_lines          read_yaml, YamlText: YAML as plain values with the line of each
sentences           split_sentences: sentences of a text with their places
plain_words         describe, place_text, shown: pydantic's errors in plain words
field_descriptions  field_descriptions, DescribedSchema: meanings of a model's fields
"""
