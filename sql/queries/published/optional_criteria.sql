-- optional_criteria: one row per criterion_id of the rubric of the run $run_id with `required: false`.
with criteria as (
    select unnest(rubrics.body::json -> '$.criteria[*]') as criterion
    from runs
    inner join rubrics on runs.rubric_id = rubrics.rubric_id and runs.rubric_version = rubrics.rubric_version
    where runs.run_id = $run_id
),

final as (
    select criterion ->> 'id' as criterion_id
    from criteria
    where not coalesce((criterion ->> 'required')::boolean, true)
)

select * from final
