"""Statistics of scores: pure functions over numpy arrays. scipy is imported where it is used, as it loads slowly.

arrays                  Floats; cluster_sums: values that share a case
intervals               Interval, Mean, measure_mean, mean_interval, wilson, rate_interval; measure_means: of many
means                   measure_difference: p and interval of a mean difference; score_interval: of scores in a range
shrinkage               shrink_differences: of all criteria together, a second opinion on few cases
strata                  means over cases drawn by stratum
significance            chance_of_p, is_significant; wilcoxon, mcnemar, adjust_for_many; shortfall_test: of a slice
resampling              Jackknife, jackknife_parts; bootstrap_means, percentile_interval
comparison              PairFigures, measure_pairs, measure_passes; measure_unpaired: over different cases
distributions           pair_distributions, Dominance: two empirical CDFs; measure_spread: which side is steadier
decomposition           decompose: contributions of criteria to a difference; variance_components
power                   power_of, detectable_effect, needed_n, sd_of_case, Margin
rules                   rules over a comparison's figures: parse_rule, holds
noise                   draw_sides, hold_in_draws: the A/A test; nominal_rate: false alarms of a rule
series, stopping        read_series: levels of a series of nights; analyse_interim: sequential stopping
release                 decide_mean, decide_failures: whether a model may ship
agreement               measure_raters, measure_sides; agreement_coefficients: kappa, alpha, ICC, correlations
rater_comparison        compare_rater; agreement_with_gaps, alpha_over_people: a judge with people
rater_models            SeverityFit; settle_labels: labels from several raters and judges, by each one's errors
calibration             Rated, corrected_mean, ratings_to_halve; corrected_sum: means from few ratings and many scores
rating_estimates        rate_next: outputs to rate next; post_stratified_mean, rogan_gladen_mean
doubt_sampling          doubt_keys, drawn_mean: outputs drawn for rating by the judge's doubt
judge_quality           judge_trust, pairwise_accuracy, recalibrate, DriftEvidence: whether a judge changed
improvement             search_candidates, kappa_change, rise_power: a better question, searched and claimed apart
cascade_rule, davidson  choose_rule: rule of a cascade; rank_models: strengths from pairwise choices
outcomes, suite         suggest_weights: scores and outcomes in use; compare_shares, measure_items: cases of a suite
similarity              LexicalVectors: hashed n-grams of texts; compare_vectors, families_of: texts of other cases
Everything else is internal to this package.
"""
