-- int_slices_ranked: one row per slice_number, criterion_id on which the slice does worse than the model's other
-- outputs: the 100 of each model, checkpoint with the largest loss, gates ranked apart. loss is the total score lost;
-- rest_ columns describe the other outputs.
-- materialized: table
with slices as (select * from int_slices_averaged),

means as (
    select groups.model, groups.checkpoint, means.criterion_id, means.n, means.mean,
    from int_criteria_averaged as means
    inner join int_groups_counted as groups on means.group_number = groups.group_number
    where not means.is_per_case
),

criteria as (select * from int_criteria_weighted where not is_per_case),

compared as (
    select
        slices.*,
        means.n - slices.n as rest_n,
        clip((means.n * means.mean - slices.n * slices.mean) / nullif(means.n - slices.n, 0)) as rest_mean,
        slices.n / means.n as share,
        criteria.is_gate,
        criteria.weight_share as weight,
        if(criteria.is_gate, 1.0, criteria.weight_share) * slices.n * (rest_mean - slices.mean) as loss,
    from slices
    inner join means
        on slices.criterion_id = means.criterion_id
        and slices.model = means.model
        and slices.checkpoint is not distinct from means.checkpoint
    inner join criteria on slices.criterion_id = criteria.criterion_id
),

ranked as (
    select
        *,
        row_number() over (
            partition by model, checkpoint, is_gate order by loss desc, criterion_id, slice_key, slice_value
        ) as place,
    from compared
    where loss > 1e-9 and rest_n >= 5
),

final as (
    select * exclude (place),
    from ranked
    where place <= 100
)

select * from final
