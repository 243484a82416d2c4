"""Statistics of scores: pure functions over numpy arrays. scipy is imported where it is used, as it loads slowly.

intervals           Interval, Mean, measure_mean, mean_interval, wilson, rate_interval
vectorised_means    the same for many samples at once
bootstrap           bootstrap_means, percentile_interval
mean_difference     measure_difference: p and interval of a mean difference
paired              wilcoxon, mcnemar, count_shares, adjust_for_many
spread              measure_spread: which of two sides has the smaller standard deviation
comparison          PairFigures, measure_pairs, measure_passes
decomposition       decompose: contributions of criteria to a mean difference
distributions       pair_distributions, Dominance: two empirical CDFs
power               power_of, detectable_effect, needed_n, sd_of_case, Margin
rules, rule_parser  rules over a comparison's figures: parse_rule, holds
rule_false_alarms   nominal_rate, holds_in_each: a rule over many comparisons
noise               draw_sides, hold_in_draws: the A/A test
series              Series: levels of a series of looks, read_series
drift               DriftEvidence, contrasts: whether a judge changed
agreement           measure_raters, measure_sides; kappa, alpha, icc and correlation have the statistics
jackknife           Jackknife, jackknife_parts: intervals of agreement
dawid_skene         settle_labels: labels from several raters and judges, by each one's errors
judge_beside_people agreement_with_gaps, alpha_over_people
calibration         Rated, corrected_mean, ratings_to_halve: means from few ratings and many scores
post_stratified     post_stratified_mean: the same, weighted by the judge's scores
rogan_gladen        rogan_gladen_mean: the same for two levels
rating_next         rate_next: outputs to rate next
lexical             LexicalVectors: hashed character n-grams of texts
similarity          compare_vectors: texts beside those of other cases
clusters            cluster_sums: values that share a case
Everything else is internal to this package.
"""
