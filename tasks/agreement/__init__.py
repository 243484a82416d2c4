"""Raters and judges: agreement and calibration.

mart            agreement_table: the mart `agreement`; `statements`, its input: verdicts on one scale
published_run   measure_run: `gradebook people agreement`, also on steps of agents and claims; trust in the judge
preferences     measure_preferences, rank_run: choices between two outputs, and rankings of models by them
compare_judges  compare_judges: `gradebook judge compare`
columns         columns of tables on raters, agreement and corrected means
raters          compare_raters, settle_run: `gradebook people raters`, and levels settled from raters and judges
calibration     calibrate_run, samples_of: a judge's means corrected by ratings
audited_scores  add_audited_source: means of a cascade corrected by its audit
outcomes        import_outcomes, measure_outcomes: outcomes in use, and their correlation with scores
"""
