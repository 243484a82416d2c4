-- example_verdicts: one row per output_id, criterion_id of the run $run_id that the connection was narrowed to, in the
-- rubric's order, per-case criteria last. level: the level's name in the rubric, or in the row's own criterion.
-- distribution: probabilities of the levels, where the judge gave them; null without.
with spread as (
    select request_key, criterion_id, arg_min(distribution, asked_at) as distribution,
    from judgments
    where status = 'scored' and distribution is not null
    group by request_key, criterion_id
),

final as (
    select
        verdicts.output_id,
        verdicts.criterion_id,
        verdicts.method,
        verdicts.level_id,
        coalesce(
            list_filter(own.levels, lambda each: each.id = verdicts.level_id)[1].label, levels.label, verdicts.level_id
        ) as level,
        verdicts.score,
        verdicts.reason,
        verdicts.evidence,
        verdicts.rationale,
        spread.distribution,
        criteria.name,
        coalesce(own.description, criteria.description) as question,
        coalesce(own.is_gate, criteria.is_gate, false) as is_gate,
        coalesce(own.weight, criteria.weight) < 0 as is_penalty,
    from verdicts
    inner join runs on verdicts.run_id = runs.run_id
    left join case_criteria as own
        on verdicts.run_id = own.run_id
        and verdicts.output_id = own.output_id
        and verdicts.criterion_id = own.criterion_id
    left join criteria
        on runs.rubric_id = criteria.rubric_id
        and runs.rubric_version = criteria.rubric_version
        and verdicts.criterion_id = criteria.criterion_id
    left join spread
        on verdicts.request_key = spread.request_key and verdicts.criterion_id = spread.criterion_id
    left join levels
        on runs.rubric_id = levels.rubric_id
        and runs.rubric_version = levels.rubric_version
        and verdicts.criterion_id = levels.criterion_id
        and verdicts.level_id = levels.level_id
    where verdicts.run_id = $run_id
    order by verdicts.output_id, criteria.position nulls last, verdicts.criterion_id
)

select * from final
