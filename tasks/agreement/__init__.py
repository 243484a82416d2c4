"""Raters and judges: agreement and calibration.

statements           verdicts of raters and judges on one scale, the input of both
mart                 agreement_table: the mart `agreement`
published_run        measure_run: `gradebook agreement`
preferences          measure_preferences: which of two outputs people prefer
steps                measure_steps, measure_claims: agreement on the steps of agents and on claims
compare_judges       compare_judges: `gradebook judges compare`
rankings             rank_run: strengths of models by people's choices and by scores
raters               compare_raters: `gradebook raters`
settled_labels       settle_run: levels of outputs from raters and judges
calibration          calibrate_run: a judge's means corrected by ratings
calibration_samples  samples_of: judged and rated outputs of a criterion
import_outcomes      import_outcomes: outcomes in use, by output, case or day
outcomes             measure_outcomes: how scores follow them
"""
