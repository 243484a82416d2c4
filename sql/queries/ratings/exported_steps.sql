-- exported_steps: one row per output_id, criterion_id, rater with marks of steps, in order: the latest marks of each
-- step, without those taken back. Of the outputs of the run $run_id, or of all if it is null.
with chosen as (
    select output_id
    from output_scores
    where run_id = $run_id
),

standing as (
    from step_ratings
    where $run_id is null or output_id in (from chosen)
    qualify rank() over (
        partition by output_id, criterion_id, rater, step_index order by rated_at desc nulls last
    ) = 1
),

final as (
    select
        output_id,
        criterion_id,
        rater,
        list(
            {
                'step': step_index,
                'label': label,
                'error_type': error_type,
                'error_subtype': error_subtype,
                'severity': severity,
                'rationale': rationale,
            }
            order by step_index, error_type, error_subtype
        ) as steps,
    from standing
    where label is not null and step_index is not null
    group by output_id, criterion_id, rater
)

select * from final
