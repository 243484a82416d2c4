-- verdict_lines: one row per run_id, output_id, criterion_id that applies to the output, with its line of
-- output_feedback. aim is the level to aim for and what it or its criterion asks, null where there is none; loss is the
-- score to be gained.
with held as (
    select
        scores.run_id, scores.output_id, scores.failed_gates,
        ladders.criterion_id, false as is_own, ladders.position,
        ladders.is_gate, ladders.threshold, ladders.weight, ladders.levels, criteria.description,
    from output_scores as scores
    inner join runs on scores.run_id = runs.run_id
    inner join criterion_ladders as ladders
        on runs.rubric_id = ladders.rubric_id
        and runs.rubric_version = ladders.rubric_version
    inner join criteria
        on ladders.rubric_id = criteria.rubric_id
        and ladders.rubric_version = criteria.rubric_version
        and ladders.criterion_id = criteria.criterion_id
    union all
    select
        scores.run_id, scores.output_id, scores.failed_gates,
        own.criterion_id, true as is_own, null as position,
        own.is_gate, own.threshold, own.weight, own.levels, own.description,
    from output_scores as scores
    inner join case_criteria as own on scores.run_id = own.run_id and scores.output_id = own.output_id
),

judged as (
    select
        held.*,
        verdicts.score,
        is_gate and list_contains(failed_gates, held.criterion_id) as is_failed_gate,
        -- The aim for a failed gate is a level that passes it, otherwise the next better level.
        case
            when is_failed_gate
                then list_filter(levels, lambda level: level.score >= coalesce(threshold, levels[-1].score) - 1e-9)[1]
            when weight > 0 then list_filter(levels, lambda level: level.score > verdicts.score + 1e-9)[1]
            when weight < 0 then list_filter(levels, lambda level: level.score < verdicts.score - 1e-9)[-1]
        end as better,
        coalesce(
            list_filter(levels, lambda level: level.id = verdicts.level_id)[1].label, verdicts.level_id
        ) as level_name,
        case
            when verdicts.score is null then concat('unscored', ' (' || nullif(verdicts.reason, '') || ')')
            when level_name is null then printf('%.2f', verdicts.score)
            else printf('%s (%.2f)', level_name, verdicts.score)
        end as verdict,
    from held
    left join verdicts
        on held.run_id = verdicts.run_id
        and held.output_id = verdicts.output_id
        and held.criterion_id = verdicts.criterion_id
    where not starts_with(coalesce(verdicts.reason, ''), 'not_applicable: condition not met')
),

final as (
    select
        run_id,
        output_id,
        criterion_id,
        is_own,
        position,
        is_failed_gate,
        round(weight * if(weight < 0, -score, 1.0 - score), 9) as loss,
        concat(
            criterion_id, ': ', verdict, case when is_gate then ', gate' when weight < 0 then ', penalty' end
        ) as line,
        criterion_id || ', to reach ' || coalesce(better.label, better.id)
            || coalesce(': ' || coalesce(nullif(better.description, ''), nullif(description, '')), '') as aim,
    from judged
)

select * from final
