-- decisions: one row per output_id, criterion_id and step_index of the run $run_id on which a lead decided: the latest
-- decision, the newest first. step_index: null for a decision on the whole output. level_id: null where the criterion
-- does not apply.
with decided as (
    select output_id, criterion_id, null::integer as step_index, adjudicator, level_id, cause, confidence,
        needs_rubric_update, notes, decided_at,
    from asked_adjudications
    union all
    select output_id, criterion_id, step_index, adjudicator, label as level_id, cause, confidence,
        needs_rubric_update, notes, decided_at,
    from asked_step_adjudications
),

scored as (select output_id, case_id, model, checkpoint from output_scores where run_id = $run_id),

final as (
    select decided.*, scored.case_id, scored.model, scored.checkpoint
    from decided
    inner join scored on decided.output_id = scored.output_id
    qualify row_number() over (
        partition by decided.output_id, decided.criterion_id, decided.step_index
        order by decided.decided_at desc
    ) = 1
    order by decided.decided_at desc, decided.output_id, decided.criterion_id, decided.step_index
)

select * from final
