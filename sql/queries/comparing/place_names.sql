-- place_names: one row per place of $places: its case, sample and outputs.
with final as (
    select
        place,
        any_value(case_id) as case_id,
        any_value(sample_index) as sample_index,
        max(output_id) filter (side = 'a') as output_a,
        max(output_id) filter (side = 'b') as output_b,
    from compared_outputs
    where list_contains($places, place)
    group by place
)

select * from final
