-- run_with_rubric: one row: the run $run_id with its rubric's body (JSON), null where the lake lacks the rubric.
with final as (
    select runs.*, rubrics.body
    from runs
    left join rubrics on runs.rubric_id = rubrics.rubric_id and runs.rubric_version = rubrics.rubric_version
    where runs.run_id = $run_id
)

select * from final
