-- int_weak_spots: one row per slice_number, criterion_id whose outputs do worse than the model's others: the 100 of
-- each model, checkpoint that lose most, gates counted apart. loss is the score that they lose together, rest_ is of
-- the others.
-- materialized: table
with slices as (select * from int_slice_means),

means as (
    select groups.model, groups.checkpoint, means.criterion_id, means.n, means.mean,
    from int_criterion_means as means
    inner join int_groups as groups on means.group_number = groups.group_number
    where not means.is_per_case
),

criteria as (select * from int_criteria where not is_per_case),

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
