-- criterion_scores: one row per run_id, model, checkpoint, criterion_id. Scores and rates in 0..1 over the n scored
-- outputs; ci_low and ci_high are the 95% Student t interval on the mean, clipped to 0..1, null where n is under 2.
with run as (select * from stg_run),

groups as (select * from int_groups),

criteria as (select * from int_criteria),

means as (select * from int_criterion_means),

final as (
    select
        run.run_id,
        groups.model,
        groups.checkpoint,
        criteria.criterion_id,
        criteria.category,
        groups.output_count,
        coalesce(means.n, 0) as n,
        means.mean,
        means.sd,
        clip(means.mean - t_margin(means.sd, means.n)) as ci_low,
        clip(means.mean + t_margin(means.sd, means.n)) as ci_high,
        means.pass_rate,
        coalesce(means.n, 0) / groups.output_count as coverage_rate,
        criteria.weight_share as weight,
        criteria.weight_share * means.mean as contribution,
    from run
    cross join groups
    cross join criteria
    left join means
        on groups.model = means.model
        and groups.checkpoint is not distinct from means.checkpoint
        and criteria.criterion_id = means.criterion_id
)

select * from final
