-- best_checkpoint: at most one row: the approved checkpoint of the model $model, other than $checkpoint, with the
-- highest mean by the rubric version $rubric_id $rubric_version. Means of two rubric versions are not comparable.
-- candidate_count: approved checkpoints among which it was chosen. $before: of those decided before a time; null: all.
with final as (
    select *, count(*) over () as candidate_count,
    from checkpoints
    where
        model = $model
        and checkpoint <> $checkpoint
        and rubric_id = $rubric_id
        and rubric_version = $rubric_version
        and status = 'approved'
        and mean is not null
        and ($before::timestamptz is null or decided_at < $before)
    order by mean desc, decided_at
    limit 1
)

select * from final
