-- rubric_of_run: one row: the run $run_id with its rubric's body (JSON).
with final as (
    select runs.status, runs.reason, rubrics.body
    from runs
    inner join rubrics on runs.rubric_id = rubrics.rubric_id and runs.rubric_version = rubrics.rubric_version
    where runs.run_id = $run_id
)

select * from final
