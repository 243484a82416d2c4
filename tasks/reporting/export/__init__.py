"""A run's report in other forms.

comment     run_comment: Markdown for a pull request, and Prefect artifacts
picture     run_picture: a PNG for a chat
markdown    escaped, table_text: Markdown that hostile text cannot break
"""
