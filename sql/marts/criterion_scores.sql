-- criterion_scores: one row per run_id, model, checkpoint, criterion_id, of the rubric or brought along by rows. Scores
-- and rates in 0..1 over the n scored outputs of cluster_count cases; intervals as in int_intervals.
with rubric as (select * from int_rubric),

means as (select * from int_criterion_means),

own as (select * from int_own_means),

intervals as (select * from int_intervals where scope = 'criterion'),

measured as (
    select * from means
    union all by name
    select * from own
),

final as (
    select
        rubric.run_id,
        measured.model,
        measured.checkpoint,
        measured.criterion_id,
        measured.category,
        measured.output_count,
        measured.n,
        intervals.cluster_count,
        measured.mean,
        measured.sd,
        intervals.ci_low,
        intervals.ci_high,
        measured.pass_rate,
        intervals.pass_low,
        intervals.pass_high,
        measured.n / measured.output_count as coverage_rate,
        measured.weight_share as weight,
        case when not rubric.has_own_weights then measured.weight_share * measured.mean end as contribution,
    from measured
    cross join rubric
    inner join intervals
        on measured.criterion_id = intervals.scope_id
        and measured.model = intervals.model
        and measured.checkpoint is not distinct from intervals.checkpoint
)

select * from final
