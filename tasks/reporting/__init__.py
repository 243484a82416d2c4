"""The report of a run, and the site of a lake.

page           SECTIONS, write_report, run_picture: the page, section by section, and a picture for a chat
sections       one module a section: its figures and sentences
report_source  ReportSource, measured_criteria: what sections read from the lake
site           write_site: home page of a lake
comment        run_comment: Markdown for a pull request, and Prefect artifacts
charts         draw, draw_png, Figure: Vega-Lite charts as SVG and PNG
lanes          Lanes: models as rows of a chart
rendering      render, segments_of, escaped: templates, marked evidence, and Markdown that hostile text cannot break
judge_trust    read_judge_trust: whether a run's judge may be trusted
"""
