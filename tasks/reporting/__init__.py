"""The report of a run, and the site of a lake.

page      SECTIONS, write_report: the page, section by section
sections  one package a section: its figures and sentences
source    ReportSource: what sections read from the lake
drawing   charts, tables and templates
export    Markdown comment and picture
site      home page of a lake
"""
