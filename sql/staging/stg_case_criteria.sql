-- stg_case_criteria: one row per output_id, criterion_id that the output's row brought along. weight is 0 for a gate;
-- thresholds in 0..1.
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
