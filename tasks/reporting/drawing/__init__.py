"""Charts, tables, marked texts and templates.

charts     draw, draw_png: Vega-Lite charts as SVG and PNG
figures    Figure: a picture with its sentence and its table
marking    segments_of: evidence marked in an output
templates  render: Jinja templates of pages/
"""
