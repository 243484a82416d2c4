-- judged_verdicts: one row per output and criterion that the run $run_id has a judge's level of: texts, level, score
-- (0..1), rationale and evidence.
with final as (
    select
        outputs.case_id,
        outputs.output_id,
        outputs.model,
        outputs.prompt,
        outputs.output,
        outputs.reference,
        verdicts.criterion_id,
        coalesce(criteria.description, case_criteria.description) as description,
        verdicts.level_id,
        verdicts.score,
        verdicts.rationale,
        verdicts.evidence,
        runs.judge,
    from verdicts
    inner join runs on verdicts.run_id = runs.run_id
    inner join outputs on verdicts.output_id = outputs.output_id
    left join criteria
        on runs.rubric_id = criteria.rubric_id
        and runs.rubric_version = criteria.rubric_version
        and verdicts.criterion_id = criteria.criterion_id
    left join case_criteria
        on verdicts.run_id = case_criteria.run_id
        and verdicts.output_id = case_criteria.output_id
        and verdicts.criterion_id = case_criteria.criterion_id
    where verdicts.run_id = $run_id and verdicts.method = 'judge' and verdicts.level_id is not null
    order by outputs.case_id, outputs.output_id, verdicts.criterion_id
)

select * from final
