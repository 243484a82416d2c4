-- stg_case_criteria: one row per output_id, criterion_id of a per-case criterion: one that the output's own input row
-- defines. weight is 0 for a gate; thresholds are in 0..1.
with criteria as (select * from source_case_criteria),

final as (
    select
        output_id,
        criterion_id,
        coalesce(category, '(none)') as category,
        weight,
        is_gate,
        threshold,
        gate_threshold,
    from criteria
)

select * from final
