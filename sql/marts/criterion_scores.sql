-- criterion_scores: one row per run_id, model, checkpoint, criterion_id, of the rubric or brought along by rows. Scores
-- and rates in 0..1 over the n scored outputs; ci_low and ci_high are the 95% Student t interval on the mean, clipped
-- to 0..1, null where n is under 2.
with rubric as (select * from int_rubric),

means as (select * from int_criterion_means),

own as (select * from int_own_means),

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
        measured.mean,
        measured.sd,
        clip(measured.mean - t_margin(measured.sd, measured.n)) as ci_low,
        clip(measured.mean + t_margin(measured.sd, measured.n)) as ci_high,
        measured.pass_rate,
        measured.n / measured.output_count as coverage_rate,
        measured.weight_share as weight,
        case when not rubric.has_own_weights then measured.weight_share * measured.mean end as contribution,
    from measured
    cross join rubric
)

select * from final
