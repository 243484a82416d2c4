-- rated_criteria: one row per criterion_id of $criterion_ids that the run $run_id asked a judge, and that people rated
-- on its outputs (asked_ratings).
with judged as (
    select criteria.criterion_id
    from criteria
    inner join runs on criteria.rubric_id = runs.rubric_id and criteria.rubric_version = runs.rubric_version
    where runs.run_id = $run_id and criteria.method = 'judge'
    union
    select criterion_id from case_criteria where run_id = $run_id and method = 'judge'
),

final as (
    select distinct criterion_id
    from asked_ratings
    where
        score is not null
        and list_contains($criterion_ids, criterion_id)
        and criterion_id in (from judged)
        and output_id in (select output_id from output_scores where run_id = $run_id)
    order by criterion_id
)

select * from final
