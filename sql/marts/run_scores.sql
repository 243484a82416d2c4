-- run_scores: one row per run_id, model, checkpoint. Means and rates in 0..1 over the n scored outputs; ci_low and
-- ci_high as in criterion_scores; pass_rate over outputs whose is_passed is known, gate_failure_rate over those whose
-- gates are. cost_usd is what this run paid.
with scores as (select * from output_scores),

costs as (select * from int_group_costs),

measured as (
    select
        run_id,
        model,
        checkpoint,
        count(*) as output_count,
        count(score) as n,
        avg(score) as mean,
        stddev_samp(score) as sd,
        avg(uniform_score) as uniform_mean,
        avg(is_passed::integer) as pass_rate,
        count(*) filter (len(failed_gates) > 0)
            / nullif(count(*) filter (len(failed_gates) > 0 or unscored_gate_count = 0), 0) as gate_failure_rate,
    from scores
    group by run_id, model, checkpoint
),

final as (
    select
        measured.run_id,
        measured.model,
        measured.checkpoint,
        measured.output_count,
        measured.n,
        clip(measured.mean) as mean,
        measured.sd,
        clip(measured.mean - t_margin(measured.sd, measured.n)) as ci_low,
        clip(measured.mean + t_margin(measured.sd, measured.n)) as ci_high,
        clip(measured.uniform_mean) as uniform_mean,
        measured.pass_rate,
        measured.gate_failure_rate,
        measured.n / measured.output_count as coverage_rate,
        case when costs.model is null then 0.0 else costs.cost_usd end as cost_usd,
    from measured
    left join costs
        on measured.model = costs.model
        and measured.checkpoint is not distinct from costs.checkpoint
)

select * from final
