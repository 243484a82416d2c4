-- run_scores: one row per run_id, model, checkpoint. Means and rates are in 0..1 over the n scored outputs of
-- cluster_count clusters; intervals are those of int_means_estimated; pass_rate is over outputs with a known is_passed,
-- gate_failure_rate over outputs with known gates, null without a gate. cost_usd is the amount that this
-- run paid. The figures of sample_k samples are null where a case has one sample.
with means as (select * from int_means_estimated where scope = 'run'),

others as (
    select
        groups.model,
        groups.checkpoint,
        mean_of_counted(scores.uniform_score, coalesce(weights.score_weight, 1)) as uniform_mean,
        coalesce(sum(coalesce(weights.gate_weight, 1)) filter (scores.failed_gates is not null), 0)
            / nullif(sum(coalesce(weights.gate_weight, 1)) filter (scores.failed_gates is not null
                or scores.gate_count > 0 and scores.unscored_gate_count = 0), 0)
            as gate_failure_rate,
        any_value(samples) as samples,
    from int_outputs_scored as scores
    left join int_measures_weighted as weights
        on weights.scope = 'run' and scores.output_number = weights.output_number
    inner join int_groups_counted as groups on scores.group_number = groups.group_number
    left join int_samples_summed as samples on scores.group_number = samples.group_number
    group by groups.model, groups.checkpoint
),

costs as (
    select
        outputs.model,
        outputs.checkpoint,
        if(count(*) = count(judgments.cost_usd), exact_sum(judgments.cost_usd), null) as cost_usd,
    from stg_judgments as judgments
    inner join int_outputs_numbered as outputs on judgments.output_id = outputs.output_id
    group by outputs.model, outputs.checkpoint
),

final as (
    select
        run.run_id,
        means.model,
        means.checkpoint,
        means.output_count,
        means.n,
        means.cluster_count,
        clip(means.mean) as mean,
        means.sd,
        clip(means.ci_low) as ci_low,
        clip(means.ci_high) as ci_high,
        means.p05,
        means.p25,
        means.p50,
        means.p75,
        means.p95,
        clip(others.uniform_mean) as uniform_mean,
        means.pass_rate,
        means.pass_low,
        means.pass_high,
        others.gate_failure_rate,
        means.gate_failure_low,
        means.gate_failure_high,
        means.n / means.output_count as coverage_rate,
        case when costs.model is null then 0.0 else costs.cost_usd end as cost_usd,
        others.samples.sample_k,
        others.samples.pass_at_k,
        others.samples.pass_hat_k,
        clip(others.samples.best_of_k) as best_of_k,
        others.samples.at_ends.low as pass_at_k_low,
        others.samples.at_ends.high as pass_at_k_high,
        others.samples.hat_ends.low as pass_hat_k_low,
        others.samples.hat_ends.high as pass_hat_k_high,
    from means
    inner join others
        on means.model = others.model
        and means.checkpoint is not distinct from others.checkpoint
    left join costs
        on means.model = costs.model
        and means.checkpoint is not distinct from costs.checkpoint
    cross join stg_run as run
)

select * from final
