-- cases_to_read: one row per model, checkpoint of the run $run_id: case_ids, its $case_count cases to read first, those
-- that fail the most gates, then those with the lowest scores. Scores are 0..1.
with ranked as (
    select
        model,
        checkpoint,
        case_id,
        row_number() over (
            partition by model, checkpoint
            order by max(len(failed_gates)) desc, min(score) nulls last, case_id
        ) as place,
    from output_scores
    where run_id = $run_id and (score < 1 or len(failed_gates) > 0)
    group by model, checkpoint, case_id
),

final as (
    select
        model,
        checkpoint,
        list(case_id order by place) as case_ids,
    from ranked
    where place <= $case_count
    group by model, checkpoint
)

select * from final
