-- int_own_totals: one row per output_number that brought criteria along, with what they add up to, scored or not.
with criteria as (select * from int_own_criteria),

final as (
    select
        output_number,
        exact_sum(greatest(weight, 0.0)) as positive_weight,
        exact_sum(least(weight, 0.0)) as negative_weight,
        count(*) filter (weight > 0) as positive_count,
        count(*) filter (is_weighted) as weighted_count,
        count(*) filter (is_gate) as gate_count,
        count(*) filter (is_weighted and threshold is not null) as threshold_count,
    from criteria
    group by output_number
)

select * from final
