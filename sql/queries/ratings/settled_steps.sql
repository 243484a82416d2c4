-- settled_steps: one row per output_id, criterion_id, step_index that a lead decided: the latest decision. label and
-- score are null where it is that the criterion does not apply to the step.
with final as (
    select *
    from asked_step_adjudications
    qualify row_number() over (
        partition by output_id, criterion_id, step_index, question_digest order by decided_at desc, line desc
    ) = 1
)

select * from final
