-- run_with_rubric: one row: the run with its rubric's body (JSON), null where the lake lacks the rubric. $run_id.
with final as (
    select
        runs.run_id,
        runs.status,
        runs.version,
        runs.rubric_id,
        runs.rubric_version,
        runs.rubric_digest,
        runs.judge,
        runs.settings,
        runs.judge_epoch,
        rubrics.body,
    from runs
    left join rubrics on runs.rubric_id = rubrics.rubric_id and runs.rubric_version = rubrics.rubric_version
    where runs.run_id = $run_id
)

select * from final
