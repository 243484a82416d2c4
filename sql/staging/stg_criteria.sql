-- stg_criteria: one row per criterion_id of the run's rubric version. weight is the criterion's weight in an output's
-- score, 0 for a gate; thresholds are in 0..1. A criterion that is not required does not apply to the outputs on which
-- it has no score.
with criteria as (select * from source_criteria),

final as (
    select
        criterion_id,
        coalesce(category, '(none)') as category,
        case when is_gate then 0.0 else effective_weight end as weight,
        is_gate,
        is_required,
        threshold,
        gate_threshold,
    from criteria
)

select * from final
