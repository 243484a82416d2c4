-- last_means: one row per criterion_id and model of the last published run of the version $rubric_version of the
-- rubric $rubric_id: its mean (0..1, null where no output has a score), with the run; a model's checkpoints are models
-- of their own.
with last as (
    select run_id
    from runs
    where rubric_id = $rubric_id and rubric_version = $rubric_version and status = 'published'
    order by version desc
    limit 1
),

final as (
    select
        scores.run_id,
        scores.criterion_id,
        concat_ws(' @ ', scores.model, scores.checkpoint) as model,
        scores.mean,
    from criterion_scores as scores
    inner join last on scores.run_id = last.run_id
    order by scores.criterion_id, scores.model, scores.checkpoint
)

select * from final
