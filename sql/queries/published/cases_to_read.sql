-- cases_to_read: one row per model, checkpoint of the run $run_id: case_ids, its $case_count cases to read first, those
-- that fail the most gates, then those with the lowest scores. Where a model has cases that fail, only these are listed
-- (are_failed). Scores are 0..1.
with cases as (
    select
        model,
        checkpoint,
        case_id,
        max(len(failed_gates)) as gate_count,
        min(score) as score,
        bool_or(is_passed is not distinct from false) as is_failed,
    from output_scores
    where run_id = $run_id and (score < 1 or len(failed_gates) > 0)
    group by model, checkpoint, case_id
),

marked as (
    select *, bool_or(is_failed) over (partition by model, checkpoint) as are_failed
    from cases
),

ranked as (
    select
        *,
        row_number() over (
            partition by model, checkpoint
            order by gate_count desc, score nulls last, case_id
        ) as place,
    from marked
    where is_failed = are_failed
),

final as (
    select
        model,
        checkpoint,
        any_value(are_failed) as are_failed,
        list(case_id order by place) as case_ids,
    from ranked
    where place <= $case_count
    group by model, checkpoint
)

select * from final
