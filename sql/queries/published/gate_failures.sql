-- gate_failures: one row per model, checkpoint, criterion_id of the run $run_id with outputs that fail this gate, the
-- most frequent first.
with failed as (
    select
        model,
        checkpoint,
        unnest(failed_gates) as criterion_id,
    from output_scores
    where run_id = $run_id
),

final as (
    select
        model,
        checkpoint,
        criterion_id,
        count(*) as failure_count,
    from failed
    group by model, checkpoint, criterion_id
    order by failure_count desc, criterion_id, model, checkpoint
)

select * from final
