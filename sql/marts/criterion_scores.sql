-- criterion_scores: one row per run_id, model, checkpoint, criterion_id, of the rubric or per-case. Scores and rates
-- are in 0..1 over the n scored outputs of cluster_count clusters; intervals are those of int_means_estimated.
with rubric as (select * from int_rubric_summed),

groups as (select * from int_groups_counted),

means as (select * from int_criteria_averaged),

intervals as (select * from int_means_estimated where scope = 'criterion'),

final as (
    select
        rubric.run_id,
        groups.model,
        groups.checkpoint,
        means.criterion_id,
        means.category,
        means.output_count,
        means.n,
        intervals.cluster_count,
        means.mean,
        means.sd,
        intervals.ci_low,
        intervals.ci_high,
        means.pass_rate,
        intervals.pass_low,
        intervals.pass_high,
        coalesce(means.n / nullif(means.output_count, 0), 1.0) as coverage_rate,
        means.weight_share as weight,
        case when not rubric.has_own_weights then means.weight_share * means.mean end as contribution,
    from means
    inner join groups on means.group_number = groups.group_number
    cross join rubric
    inner join intervals
        on means.criterion_id = intervals.scope_id
        and groups.model = intervals.model
        and groups.checkpoint is not distinct from intervals.checkpoint
)

select * from final
