-- int_means: one row per scope (criterion, category, run or slice), scope_id, model, checkpoint: what marts tell of a
-- group's scores. Means and rates over n scored outputs and over pass_count ones of which it is known whether they
-- pass.
-- materialized: table
with slices as (select * from int_weak_spots),

averaged as (
    select
        scope,
        scope_id,
        group_number,
        count(*) as output_count,
        count(score) as n,
        exact_mean(score) as mean,
        exact_sd(score) as sd,
        is_rate(score) as is_rate,
        count(is_passed) as pass_count,
        avg(is_passed::integer) as pass_rate,
    from int_measured_outputs
    group by scope, scope_id, group_number
    union all by name
    select
        'criterion' as scope, criterion_id as scope_id, group_number,
        output_count, n, mean, sd, is_rate, pass_count, pass_rate,
    from int_criterion_means
),

final as (
    select scope, scope_id, groups.model, groups.checkpoint, averaged.* exclude (scope, scope_id, group_number),
    from averaged
    inner join int_groups as groups on averaged.group_number = groups.group_number
    union all by name
    select 'slice' as scope, scope_id, model, checkpoint, output_count, n, mean, sd, is_rate, pass_count, pass_rate,
    from slices
)

select * from final
