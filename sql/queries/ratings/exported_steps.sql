-- exported_steps: one row per output_id, criterion_id, rater with marks of steps, in order: the latest marks of each
-- step, without those taken back; settled: what a lead decided about the step, null where nobody did. Of the outputs
-- of the run $run_id, or of all if it is null.
with chosen as (
    select output_id
    from output_scores
    where run_id = $run_id
),

settled as (from {ratings/settled_steps}),

marks as (
    from {ratings/current_step_ratings}
    where label is not null and ($run_id is null or output_id in (from chosen))
),

final as (
    select
        marks.output_id,
        marks.criterion_id,
        marks.rater,
        list(
            {
                'step': marks.step_index,
                'label': marks.label,
                'error_type': marks.error_type,
                'error_subtype': marks.error_subtype,
                'severity': marks.severity,
                'rationale': marks.rationale,
                'settled': case when settled.step_index is not null then {
                    'label': settled.label,
                    'error_type': settled.error_type,
                    'error_subtype': settled.error_subtype,
                    'severity': settled.severity,
                } end,
            }
            order by marks.step_index, marks.error_type, marks.error_subtype
        ) as steps,
    from marks
    left join settled
        on marks.output_id = settled.output_id
        and marks.criterion_id = settled.criterion_id
        and marks.step_index = settled.step_index
        and marks.question_digest is not distinct from settled.question_digest
    group by marks.output_id, marks.criterion_id, marks.rater
)

select * from final
