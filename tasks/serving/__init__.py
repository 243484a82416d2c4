"""Servers for people and programs, on loopback by default.

mcp_server    serve_mcp, TOOLS: tools by which an agent reads a lake, over the Model Context Protocol
rating_page   rating_app: the pages on which people rate
rating_forms  SheetForm, read_form: the fields of a sheet
rewards_api   rewards_app: rewards of outputs for trainers
serve         serve_app: one app on one address, until a signal ends it
"""
