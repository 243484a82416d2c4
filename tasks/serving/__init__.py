"""Servers for people and programs, on loopback unless told otherwise.

lake_tools    TOOLS: what an agent may ask a lake
mcp_server    serve_mcp: these tools over the Model Context Protocol
rating_page   rating_app: the pages on which people rate
rating_forms  SheetForm, read_form: the fields of a sheet
rewards_api   rewards_app: rewards of outputs for trainers
serve         serve_app: one app on one address, until it is told to end
"""
