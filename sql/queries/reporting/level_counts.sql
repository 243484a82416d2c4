-- level_counts: one row per criterion_id of $criterion_ids, model, checkpoint, level_id, place, band: n scored verdicts
-- of the run $run_id. place: the position of a score without a level among the criterion's levels: 0 at the worst, 0.5
-- between it and the next one, null where the verdict has a level. band: the fifth of 0..1 that the score lies in, from
-- 0. score: the lowest of the n.
with outputs as (select output_id, model, checkpoint from output_scores where run_id = $run_id),

ladders as (
    select levels.criterion_id, list(levels.score order by levels.position) as scores,
    from levels
    inner join runs on levels.rubric_id = runs.rubric_id and levels.rubric_version = runs.rubric_version
    where runs.run_id = $run_id
    group by levels.criterion_id
),

-- Counted before the join with the ladders: many verdicts have few distinct scores.
counted as (
    select
        verdicts.criterion_id, outputs.model, outputs.checkpoint, verdicts.level_id,
        verdicts.score,
        count(*) as n,
    from verdicts
    inner join outputs on verdicts.output_id = outputs.output_id
    where
        verdicts.run_id = $run_id
        and verdicts.score is not null
        and verdicts.criterion_id in (select unnest($criterion_ids))
    group by all
),

final as (
    select
        counted.criterion_id,
        counted.model,
        counted.checkpoint,
        counted.level_id,
        case
            when counted.level_id is null then (
                len(list_filter(ladders.scores, lambda level: level <= counted.score + 1e-9))
                + len(list_filter(ladders.scores, lambda level: level < counted.score - 1e-9)) - 1
            ) / 2
        end as place,
        least(floor(counted.score * 5 + 1e-9), 4)::integer as band,
        min(counted.score) as score,
        sum(counted.n)::bigint as n,
    from counted
    left join ladders on counted.criterion_id = ladders.criterion_id
    group by all
)

select * from final
