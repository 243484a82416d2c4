-- int_slices_compared: one row per slice_number, criterion_id that is searched for weak spots: beside the model's other
-- outputs, of which at least 5 are scored. rest_ columns describe these, all_ columns the slice and the rest; shortfall
-- is above 0 where the slice does worse, loss the total score lost.
-- materialized: table
with slices as (select * from int_slices_averaged),

criteria as (select * from int_criteria_weighted where not is_per_case),

shapes as (select * from int_criteria_shaped),

compared as (
    select
        slices.*,
        shapes.all_n - slices.n as rest_n,
        clip(
            (shapes.all_weight * shapes.all_mean - slices.output_weight * slices.mean)
            / nullif(shapes.all_weight - slices.output_weight, 0)
        ) as rest_mean,
        slices.output_weight / shapes.all_weight as share,
        criteria.is_gate,
        criteria.weight_share as weight,
        if(criteria.weight_share < 0, -1.0, 1.0) as direction,
        direction * (rest_mean - slices.mean) as shortfall,
        if(criteria.is_gate, 1.0, abs(criteria.weight_share)) * slices.n * shortfall as loss,
        shapes.all_n,
        shapes.all_sd,
        direction * coalesce(shapes.all_skewness, 0.0) as all_skewness,
    from slices
    inner join shapes
        on slices.criterion_id = shapes.criterion_id
        and slices.model = shapes.model
        and slices.checkpoint is not distinct from shapes.checkpoint
    inner join criteria on slices.criterion_id = criteria.criterion_id
),

final as (
    select *
    from compared
    where rest_n >= 5 and (is_gate or weight <> 0)
)

select * from final
