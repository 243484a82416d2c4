-- verdicts_of_run: one row per criterion_id of the one output of the run $run_id, in the rubric's order. score is 0..1.
with final as (
    select
        verdicts.criterion_id,
        verdicts.level_id,
        verdicts.score,
        verdicts.reason,
        verdicts.evidence,
        verdicts.rationale,
    from verdicts
    inner join runs on verdicts.run_id = runs.run_id
    left join rubrics on runs.rubric_id = rubrics.rubric_id and runs.rubric_version = rubrics.rubric_version
    where verdicts.run_id = $run_id
    order by list_position((rubrics.body::json ->> '$.criteria[*].id'), verdicts.criterion_id), verdicts.criterion_id
)

select * from final
