-- int_samples_summed: one row per group_number of int_samples_counted: means over cases of pass_at_k, pass_hat_k and
-- best_of_k, the expected best score of sample_k samples, with the intervals (interval_of) on the first two. Cases of
-- one cluster are not independent, and those of a sample by stratum have weights (int_outputs_weighted).
-- empty without: int_samples_counted
-- materialized: table
with cases as (
    select cases.*, coalesce(weights.case_weight, 1) as weight
    from int_samples_counted as cases
    left join int_outputs_weighted as weights on cases.output_number = weights.output_number
),

spreads as (select * from int_clusters_compared where scope = 'run'),

passes as (
    select
        cases.group_number,
        any_value(cases.sample_k) as sample_k,
        count(cases.pass_at_k) as case_count,
        mean_of_counted(cases.pass_at_k, cases.weight) as pass_at_k,
        mean_of_counted(cases.pass_hat_k, cases.weight) as pass_hat_k,
        sd_of_counted(cases.pass_at_k, 1, cases.weight) as at_sd,
        sd_of_counted(cases.pass_hat_k, 1, cases.weight) as hat_sd,
        any_value(spreads.at_spread) as at_spread,
        any_value(spreads.hat_spread) as hat_spread,
    from cases
    left join spreads
        on cases.model = spreads.model
        and cases.checkpoint is not distinct from spreads.checkpoint
    group by cases.group_number
),

samples as (
    select
        scores.group_number,
        outputs.case_id,
        scores.score,
        row_number() over (partition by scores.group_number, outputs.case_id order by scores.score nulls last) as place,
    from int_outputs_scored as scores
    inner join int_outputs_numbered as outputs on scores.output_number = outputs.output_number
),

-- The i-th lowest of n scores is the best of k with the probability C(i - 1, k - 1) / C(n, k).
bests as (
    select
        samples.group_number,
        exact_sum(samples.score * cases.sample_k / cases.n * list_product(list_prepend(1.0, list_transform(
            range(1, cases.sample_k), lambda j: greatest(samples.place - j, 0) / (cases.n - j)
        ))) * cases.weight) / sum(cases.weight) filter (samples.place = 1) as best_of_k,
    from samples
    inner join cases on samples.group_number = cases.group_number and samples.case_id = cases.case_id
    where samples.score is not null
    group by samples.group_number
),

final as (
    select
        passes.group_number,
        passes.sample_k,
        passes.pass_at_k,
        passes.pass_hat_k,
        interval_of(passes.case_count, passes.pass_at_k, passes.at_sd, null, passes.at_spread, 0.95) as at_ends,
        interval_of(passes.case_count, passes.pass_hat_k, passes.hat_sd, null, passes.hat_spread, 0.95) as hat_ends,
        bests.best_of_k,
    from passes
    inner join bests on passes.group_number = bests.group_number
)

select * from final
