-- example_disputes: one row per output_id of the run $run_id on which opinions differ: each judge's opinion, each
-- person's latest rating, and a verdict that people did not give. spread: the distance of the highest opinion from the
-- lowest on one criterion, 0..1, where that is the largest; criterion_id: that criterion.
with judged as (select output_id, criterion_id, method, score from verdicts where run_id = $run_id),

rated as (
    select
        judged.output_id,
        judged.criterion_id,
        judged.method,
        judged.score as verdict,
        coalesce(levels.score, ratings.score) as score,
    from {ratings/current_ratings} as ratings
    inner join judged on ratings.output_id = judged.output_id and ratings.criterion_id = judged.criterion_id
    inner join runs on runs.run_id = $run_id
    left join levels
        on runs.rubric_id = levels.rubric_id
        and runs.rubric_version = levels.rubric_version
        and ratings.criterion_id = levels.criterion_id
        and ratings.level_id = levels.level_id
),

voices as (
    select output_id, criterion_id, score from opinions where run_id = $run_id and not is_swapped
    union all
    select output_id, criterion_id, score from rated
    union all
    select output_id, criterion_id, verdict from rated where method <> 'ratings'
),

spreads as (
    select output_id, criterion_id, max(score) - min(score) as spread
    from voices
    group by output_id, criterion_id
    having max(score) - min(score) > 1e-9
),

final as (
    select output_id, max(spread) as spread, arg_max(criterion_id, (spread, criterion_id)) as criterion_id
    from spreads
    group by output_id
)

select * from final
