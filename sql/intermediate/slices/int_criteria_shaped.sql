-- int_criteria_shaped: one row per model, checkpoint with slices, criterion_id of the rubric: all_n scores of all its
-- outputs, with the sum of their weights and their mean, standard deviation and skewness (null where all are equal).
-- materialized: table
with slices as (select * from int_slices_averaged),

criteria as (select * from int_criteria_weighted where not is_per_case),

means as (
    select groups.group_number, groups.model, groups.checkpoint, criteria.criterion_number, means.*,
    from int_criteria_averaged as means
    inner join int_groups_counted as groups on means.group_number = groups.group_number
    inner join criteria on means.criterion_id = criteria.criterion_id
    semi join slices on groups.model = slices.model and groups.checkpoint is not distinct from slices.checkpoint
    where not means.is_per_case
),

counted as (
    select
        means.model, means.checkpoint, means.criterion_id, verdicts.score,
        coalesce(sum(coalesce(reweighted.weight, weights.weight)), count(*)) as weight,
    from int_verdicts_numbered as verdicts
    inner join means
        on verdicts.group_number = means.group_number
        and verdicts.criterion_number = means.criterion_number
    left join int_outputs_weighted as weights on verdicts.output_number = weights.output_number
    left join int_verdicts_reweighted as reweighted
        on verdicts.output_number = reweighted.output_number
        and verdicts.criterion_number = reweighted.criterion_number
    where verdicts.score is not null
    group by means.model, means.checkpoint, means.criterion_id, verdicts.score
),

final as (
    select
        means.model,
        means.checkpoint,
        means.criterion_id,
        any_value(means.n) as all_n,
        any_value(means.mean) as all_mean,
        any_value(means.sd) as all_sd,
        sum(counted.weight) as all_weight,
        exact_sum(counted.weight * (counted.score - means.mean) ** 3) / all_weight
        / nullif((all_sd ** 2 * (1 - 1 / all_n)) ** 1.5, 0.0) as all_skewness,
    from means
    inner join counted
        on means.model = counted.model
        and means.checkpoint is not distinct from counted.checkpoint
        and means.criterion_id = counted.criterion_id
    group by means.model, means.checkpoint, means.criterion_id
)

select * from final
