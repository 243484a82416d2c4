-- int_scores_averaged: one row per scope (criterion, category, run or slice), scope_id, model, checkpoint. Means and
-- rates are over the n scored outputs, over the pass_count outputs with a known pass or fail, and over the gate_count
-- outputs with known gates; weighted where a sample was drawn by stratum. least_score is the lowest score that any of
-- the outputs could have.
-- materialized: table
with slices as (select * from int_slices_ranked),

averaged as (
    select
        scope,
        scope_id,
        group_number,
        count(*) as output_count,
        count(score) as n,
        exact_mean(score) as mean,
        exact_sd(score) as sd,
        skewness_of(n, mean, sd, cubes_of(score, 1)) as skewness,
        coalesce(min(least_score) filter (score is not null), 0.0) as least_score,
        count(is_passed) as pass_count,
        avg(is_passed::integer) as pass_rate,
        count(is_gate_failed) as gate_count,
        avg(is_gate_failed::integer) as gate_failure_rate,
    from int_scores_unioned
    group by scope, scope_id, group_number
    union all by name
    select
        'criterion' as scope, criterion_id as scope_id, group_number,
        output_count, n, mean, sd, skewness, 0.0 as least_score, pass_count, pass_rate,
        0 as gate_count, null as gate_failure_rate,
    from int_criteria_averaged
),

final as (
    select
        averaged.scope, averaged.scope_id, groups.model, groups.checkpoint, averaged.output_count, averaged.n,
        coalesce(weighted.mean, averaged.mean) as mean,
        coalesce(weighted.sd, averaged.sd) as sd,
        averaged.skewness,
        least_score, pass_count,
        coalesce(weighted.pass_rate, averaged.pass_rate) as pass_rate,
        gate_count,
        coalesce(weighted.gate_failure_rate, averaged.gate_failure_rate) as gate_failure_rate,
    from averaged
    inner join int_groups_counted as groups on averaged.group_number = groups.group_number
    left join int_scores_weighted as weighted
        on averaged.scope = weighted.scope
        and averaged.scope_id = weighted.scope_id
        and averaged.group_number = weighted.group_number
    union all by name
    select
        'slice' as scope, scope_id, model, checkpoint, output_count, n, mean, sd, skewness, 0.0 as least_score,
        pass_count, pass_rate, 0 as gate_count, null as gate_failure_rate,
    from slices
)

select * from final
