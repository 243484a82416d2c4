-- int_held_outputs: one row per output_number with what the criteria that it is held to add up to: those of the rubric
-- and those that its row brought along.
with outputs as (select * from int_outputs),

rubric as (select * from int_rubric),

own as (select * from int_own_totals),

final as (
    select
        outputs.*,
        rubric.positive_weight + coalesce(own.positive_weight, 0.0) as positive_weight,
        rubric.negative_weight + coalesce(own.negative_weight, 0.0) as negative_weight,
        rubric.positive_count + coalesce(own.positive_count, 0) as positive_count,
        rubric.weighted_count + coalesce(own.weighted_count, 0) as weighted_count,
        rubric.gate_count + coalesce(own.gate_count, 0) as gate_count,
        rubric.threshold_count + coalesce(own.threshold_count, 0) as threshold_count,
    from outputs
    cross join rubric
    left join own on outputs.output_number = own.output_number
)

select * from final
