"""Texts of files and messages: YAML with line numbers, and validation errors in plain words.

remarks             conflict_words, figure_words: figures of a comparison in words
wording             counted, score_words, price_words: numbers and counts as people read them
tables              Table, table_of, table_from: tables for the terminal, pages, Markdown and the picture
yaml_lines          read_yaml, YamlText: YAML as plain values with the line of each
reasons             reason_words: why a figure is missing, in words
sentences           split_sentences: sentences of a text with their places
plain_words         describe, place_text, quote_value: pydantic's errors in plain words
field_descriptions  field_descriptions, DescribedSchema: meanings of a model's fields
"""
