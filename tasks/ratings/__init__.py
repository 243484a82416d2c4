"""People's ratings: read, matched, imported, stored, exported.

evaluation_file  read_ratings: the file of `evaluate --ratings`
run_ratings      match_ratings, score_ratings: ratings as verdicts of a run
import_ratings   import_ratings: `gradebook people ratings import`
import_sheets    read_sheets, match_slots, grade_sheets: a file's sheets, matched to outputs, graded by the rubric
offered          offered_note, take_ratings: ratings under another text of a criterion
export_ratings   exported_ratings: `gradebook people export`
rating_session   opened_session: the session of `gradebook people rate`, its gold outputs, its ratings moved to the lake
rating_queue     choose_outputs: which outputs people rate, in which order
pairs            choose_pairs, preferences_table: two outputs of a case, and which is better
rating_store     RatingStore: sheets, leases and ratings of a session, on disk
tables           insert_ratings, find_ratings: the tables `ratings`, `step_ratings` and `claim_ratings`
"""
