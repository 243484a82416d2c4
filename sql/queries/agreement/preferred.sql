-- preferred: one row per criterion_id, output_id of the run $run_id that people scored instead of the judge
-- (`prefer: human`), so that the judge was not asked.
with final as (
    select verdicts.criterion_id, verdicts.output_id
    from agreed_verdicts as verdicts
    inner join criteria on verdicts.criterion_id = criteria.criterion_id
    inner join runs on criteria.rubric_id = runs.rubric_id and criteria.rubric_version = runs.rubric_version
    where runs.run_id = $run_id and verdicts.method = 'ratings' and criteria.method = 'judge'
)

select * from final
