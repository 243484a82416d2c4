-- example_disputes: one row per output_id of the run $1 with differing opinions. criterion_id is the criterion with the
-- largest spread, the distance between the highest and the lowest opinion, 0..1. Opinions: each judge's, each person's
-- latest rating, and a verdict not given by people.
with judged as (select output_id, criterion_id, method, score from verdicts where run_id = $1),

rated as (
    select
        judged.output_id,
        judged.criterion_id,
        judged.method,
        judged.score as verdict,
        coalesce(levels.score, ratings.score) as score,
    from ratings
    inner join judged on ratings.output_id = judged.output_id and ratings.criterion_id = judged.criterion_id
    inner join runs on runs.run_id = $1
    left join levels
        on runs.rubric_id = levels.rubric_id
        and runs.rubric_version = levels.rubric_version
        and ratings.criterion_id = levels.criterion_id
        and ratings.level_id = levels.level_id
    qualify row_number() over (
        partition by ratings.output_id, ratings.criterion_id, ratings.rater
        order by ratings.rated_at desc nulls last, ratings.rowid desc
    ) = 1
),

voices as (
    select output_id, criterion_id, score from opinions where run_id = $1 and not is_swapped
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
