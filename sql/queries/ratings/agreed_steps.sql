-- agreed_steps: one row per output_id, criterion_id, step_index of the relation chosen_outputs: what a lead settled,
-- else the worst mark of any rater.
with ranked as (
    select output_id, criterion_id, step_index, label, score, error_type, error_subtype, severity, rationale, 1 as rank
    from {ratings/current_step_ratings}
    union all
    select output_id, criterion_id, step_index, label, score, error_type, error_subtype, severity, notes, 0 as rank
    from {ratings/settled_steps}
),

final as (
    select * exclude (rank)
    from ranked
    where output_id in (select output_id from chosen_outputs)
    qualify row_number() over (
        partition by output_id, criterion_id, step_index order by rank, score nulls last, error_type, severity
    ) = 1
    order by output_id, criterion_id, step_index
)

select * from final
