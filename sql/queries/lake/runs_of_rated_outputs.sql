-- runs_of_rated_outputs: one row per published run_id with an output that people rated: the source that ratings of its
-- page have, and its rubric's body (JSON).
with rated as (
    select output_id from ratings
    union
    select output_id from step_ratings
    union
    select output_id from claim_ratings
),

final as (
    select runs.run_id, 'rating page, run ' || runs.run_id as source, rubrics.body
    from runs
    inner join rubrics using (rubric_id, rubric_version)
    where
        runs.status = 'published'
        and rubrics.body is not null
        and runs.run_id in (select run_id from output_scores where output_id in (from rated))
)

select * from final
