-- category_scores: one row per run_id, model, checkpoint, category, inner and outer ones. Scores and rates in 0..1 over
-- the n outputs that have a score in the category; intervals as in int_intervals; pass_rate over outputs whose gates
-- and thresholds of the category are known, null where it has none.
with means as (select * from int_means where scope = 'category'),

intervals as (select * from int_intervals where scope = 'category'),

quantiles as (select * from int_quantiles where scope = 'category'),

categories as (select * from int_categories),

rubric as (select * from int_rubric),

final as (
    select
        rubric.run_id,
        means.model,
        means.checkpoint,
        means.scope_id as category,
        means.output_count,
        means.n,
        intervals.cluster_count,
        means.mean,
        means.sd,
        intervals.ci_low,
        intervals.ci_high,
        quantiles.p05,
        quantiles.p25,
        quantiles.p50,
        quantiles.p75,
        quantiles.p95,
        means.pass_rate,
        intervals.pass_low,
        intervals.pass_high,
        means.n / means.output_count as coverage_rate,
        categories.weight,
        case when not rubric.has_own_weights then categories.weight * means.mean end as contribution,
        categories.parent,
    from means
    inner join intervals
        on means.scope_id = intervals.scope_id
        and means.model = intervals.model
        and means.checkpoint is not distinct from intervals.checkpoint
    left join quantiles
        on means.scope_id = quantiles.scope_id
        and means.model = quantiles.model
        and means.checkpoint is not distinct from quantiles.checkpoint
    left join categories on means.scope_id = categories.category
    cross join rubric
)

select * from final
