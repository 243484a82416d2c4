-- reward_guards: one row per run_id, model, checkpoint, guard, subject: what a reward that rises may hide. unrewarded:
-- a criterion with `reward: false`, with its mean. length: words of an output; list: whether it has two lines of a
-- list; both with their correlation with the score. judge: the gap to another judge, as in judge_gaps. mean is that of
-- the subject, value the correlation or gap, over n outputs (judge: cases); the 95% bounds are of value, else of mean.
with unrewarded as (
    select rubric_id, rubric_version, criterion ->> 'id' as criterion_id,
    from (select rubric_id, rubric_version, unnest(json_extract(body, '$.criteria[*]')) as criterion from rubrics)
    where criterion ->> 'reward' = 'false'
),

shaped as (
    select
        scores.run_id, scores.model, scores.checkpoint, scores.score,
        len(regexp_extract_all(outputs.output, '\S+'))::double as length,
        (len(regexp_extract_all(outputs.output, '(?m)^[ \t]*(?:[-*•+]|\d{1,3}[.)])[ \t]')) >= 2)::int::double as list,
    from output_scores as scores
    inner join runs on scores.run_id = runs.run_id
    inner join outputs on scores.output_id = outputs.output_id
    where runs.status = 'published' and scores.score is not null
),

related as (
    select
        run_id, model, checkpoint, guard, guard as subject,
        count(*) as n,
        avg(amount) as mean,
        -- corr rounds past 1 where one is a multiple of the other, and atanh fails there.
        case
            when min(amount) < max(amount) and min(score) < max(score)
                then greatest(-1.0::double, least(1.0::double, corr(score, amount)))
        end as value,
        -- Fisher's z, whose variance is 1 / (n - 3).
        case when n > 3 then 1.959964 / sqrt(n - 3) end as margin,
    from (unpivot shaped on length, list into name guard value amount)
    group by run_id, model, checkpoint, guard
),

united as (
    select
        run_id, model, checkpoint, guard, subject, n, mean, value,
        tanh(atanh(value) - margin) as ci_low,
        tanh(atanh(value) + margin) as ci_high,
    from related
    union all by name
    select run_id, model, checkpoint, 'judge' as guard, reference_judge as subject, n, reference_mean as mean,
        gap as value, ci_low, ci_high,
    from judge_gaps
    union all by name
    select scores.run_id, scores.model, scores.checkpoint, 'unrewarded' as guard, scores.criterion_id as subject,
        scores.n, scores.mean, null::double as value, scores.ci_low, scores.ci_high,
    from criterion_scores as scores
    inner join runs on scores.run_id = runs.run_id
    inner join unrewarded
        on runs.rubric_id = unrewarded.rubric_id
        and runs.rubric_version = unrewarded.rubric_version
        and scores.criterion_id = unrewarded.criterion_id
),

final as (
    select
        united.run_id, runs.version, runs.rubric_id, united.model, united.checkpoint, united.guard, united.subject,
        united.n, united.mean, united.value, united.ci_low, united.ci_high,
    from united
    inner join runs on united.run_id = runs.run_id
)

select * from final
