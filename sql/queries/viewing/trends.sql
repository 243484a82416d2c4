-- trends: one row per model, checkpoint and run of the rubric $rubric_id, at most 30 runs of each, by model and
-- checkpoint, oldest first. mean is 0..1, null where no output has a score. is_comparable: whether rubric, judge and
-- cases are those of the run before; the answers may differ.
with history as (
    select *
    from score_history
    where rubric_id = $rubric_id
    qualify row_number() over (partition by model, checkpoint order by version desc) <= 30
),

cases as (
    select
        run_id,
        model,
        checkpoint,
        bit_xor(distinct hash(case_id)) as case_hash,
    from output_scores
    where run_id in (select run_id from history)
    group by run_id, model, checkpoint
),

final as (
    select
        history.model,
        history.checkpoint,
        history.run_id,
        history.mean,
        history.version,
        coalesce(
            is_same_rubric and is_same_judge and (is_same_dataset or earlier.case_hash = later.case_hash), false
        ) as is_comparable,
    from history
    left join cases as later
        on history.run_id = later.run_id
        and history.model = later.model
        and history.checkpoint is not distinct from later.checkpoint
    left join cases as earlier
        on history.previous_run_id = earlier.run_id
        and history.model = earlier.model
        and history.previous_checkpoint is not distinct from earlier.checkpoint
    order by history.model, history.checkpoint, history.version
)

select * from final
