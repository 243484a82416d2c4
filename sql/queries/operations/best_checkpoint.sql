-- best_checkpoint: at most one row: the approved checkpoint of the model $model, other than $checkpoint, with the
-- highest mean by the rubric version $rubric_id $rubric_version. Means of two rubric versions are not comparable.
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
    order by mean desc, decided_at
    limit 1
)

select * from final
