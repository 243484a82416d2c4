-- rubric_body: one row: the body (JSON) of the rubric version of the run $run_id; none where the lake lacks it.
with final as (
    select rubrics.body
    from rubrics
    inner join runs on rubrics.rubric_id = runs.rubric_id and rubrics.rubric_version = runs.rubric_version
    where runs.run_id = $run_id
)

select * from final
