"""Charts, tables, marked texts and templates.

charts     draw, draw_png: Vega-Lite charts as SVG and PNG
figures    Table, Figure: what a section shows
marking    segments_of: evidence marked in an output
templates  render: Jinja templates of pages/
"""
