"""Votes (opinions) on outputs: combined into verdicts, and the condition for a cascade's second judge.

claims   combined_claims, has_unsure: votes on claims
rows     opinion_rows, combined_verdicts, escalated_places: votes per output and criterion, as Arrow tables
steps    combine_votes, is_window_unsure: votes on the steps of an agent
cascade  foresee_needed, used_rows: votes of a cascade's second judge that are needed or used
"""
