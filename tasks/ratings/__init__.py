"""People's ratings: read, matched, imported, stored, exported.

evaluation_file  read_ratings: the file of `evaluate --ratings`
run_ratings      match_ratings, score_ratings: ratings as verdicts of a run
import_ratings   import_ratings: `gradebook ratings import`
import_sources   read_rating_rows: rows of a foreign file
import_sheets    read_sheets, grade_sheets: sheets of raters, graded by the rubric
import_matching  match_slots: ratings matched to outputs of the lake
offered          offered_words, take_ratings: ratings under another text of a criterion
export_ratings   exported_ratings: `gradebook export ratings`
rating_session   opened_session: the session of `gradebook rate`, its ratings moved to the lake
rating_queue     choose_outputs: which outputs people rate, in which order
gold             settled_ratings, with_gold: settled outputs among others
pairs            choose_pairs, preferences_table: two outputs of a case, and which is better
rating_store     RatingStore: sheets, leases and ratings of a session, on disk
table            insert_ratings, find_ratings: the table `ratings`
"""
