-- category_scores: one row per run_id, model, checkpoint, category, inner and outer ones. Scores and rates in 0..1 over
-- the n outputs that have a score in the category; intervals as in int_intervals; pass_rate over outputs whose gates
-- and thresholds of the category are known, null where it has none.
with means as (select * from int_intervals where scope = 'category'),

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
        means.cluster_count,
        means.mean,
        means.sd,
        means.ci_low,
        means.ci_high,
        means.p05,
        means.p25,
        means.p50,
        means.p75,
        means.p95,
        means.pass_rate,
        means.pass_low,
        means.pass_high,
        means.n / means.output_count as coverage_rate,
        categories.weight,
        case when not rubric.has_case_weights then categories.weight * means.mean end as contribution,
        categories.parent,
    from means
    left join categories on means.scope_id = categories.category
    cross join rubric
)

select * from final
