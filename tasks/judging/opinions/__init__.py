"""Votes (opinions) on outputs: combined into verdicts, and the condition for a cascade's second judge.

rows     opinion_rows, combined_verdicts, predict_needed, used_rows: votes on outputs, as Arrow tables
parts    combine_parts, claim_lists, step_lists: votes on claims and on the steps of an agent
"""
