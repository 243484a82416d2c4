-- trends: one row per model, checkpoint and run of the rubric $rubric_id, at most 30 runs of each, by model and
-- checkpoint, oldest first. mean is 0..1, null where no output has a score. is_comparable: whether rubric, judge and
-- data are those of the run before.
with final as (
    select
        model,
        checkpoint,
        run_id,
        mean,
        version,
        coalesce(is_same_rubric and is_same_judge and is_same_dataset, false) as is_comparable,
    from score_history
    where rubric_id = $rubric_id
    qualify row_number() over (partition by model, checkpoint order by version desc) <= 30
    order by model, checkpoint, version
)

select * from final
