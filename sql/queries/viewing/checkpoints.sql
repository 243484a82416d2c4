-- checkpoints: one row per model, checkpoint and rubric of the decisions on the table checkpoints, the latest of each,
-- undecided ones first, then the newest, at most $limit.
with latest as (
    select model, checkpoint, rubric_id, rubric_version, run_id, status, reasons, mean, best_diff, decided_at
    from checkpoints
    qualify row_number() over (partition by model, checkpoint, rubric_id order by decided_at desc) = 1
),

final as (
    select *
    from latest
    order by status = 'undecided' desc, decided_at desc, model, checkpoint
    limit $limit
)

select * from final
