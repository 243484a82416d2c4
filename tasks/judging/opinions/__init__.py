"""Votes (opinions) on outputs: combined into verdicts, and the condition for a cascade's second judge.

rows     opinion_rows, combined_verdicts, escalated_places: votes per output and criterion, as Arrow tables
cascade  foresee_needed, used_rows: votes of a cascade's second judge that are needed or used
parts    combine_parts, is_unsure: votes on parts of outputs
lists    claim_lists, step_lists: such parts by question, claims and the steps of an agent
"""
