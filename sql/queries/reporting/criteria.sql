-- criteria: one row per criterion_id of the rubric version of the run $run_id, in the rubric's order.
with final as (
    select criteria.* exclude (rubric_id, rubric_version, digest)
    from criteria
    inner join runs on criteria.rubric_id = runs.rubric_id and criteria.rubric_version = runs.rubric_version
    where runs.run_id = $run_id
    order by criteria.position, criteria.criterion_id
)

select * from final
