-- approved_checkpoints: approved checkpoints of the model $model, other than $checkpoint, by the rubric version
-- $rubric_id $rubric_version, highest mean first. Means of two rubric versions are not comparable.
-- $before: of those decided before a time; null: all.
with final as (
    select *
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
)

select * from final
