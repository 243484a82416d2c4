-- worst_outputs: one row per run_id, output_id; place counts from 1, the worst of its model and checkpoint: failed
-- gates first, then by score, unscored outputs last. A filter on run_id reads the outputs of that run only.
with final as (
    select
        run_id,
        model,
        checkpoint,
        row_number() over (
            partition by run_id, model, checkpoint
            order by len(failed_gates) desc, score nulls last, output_id
        ) as place,
        output_id,
        case_id,
        score,
        failed_gates,
        unscored_count,
    from output_scores
)

select * from final
