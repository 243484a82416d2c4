-- queue_disputed: one row per output_id of the run $run_id that two of its raters, or a rater and the judge, score
-- differently on one criterion. spread: the largest distance of two scores, 0..1; the widest first.
with judged as (select output_id, criterion_id, method, score from verdicts where run_id = $run_id),

rated as (
    select ratings.output_id, ratings.criterion_id, ratings.score
    from {ratings/current_ratings} as ratings
    inner join judged on ratings.output_id = judged.output_id and ratings.criterion_id = judged.criterion_id
),

voices as (
    select output_id, criterion_id, score from rated
    union all
    select output_id, criterion_id, score from judged where method <> 'ratings'
),

spreads as (
    select output_id, criterion_id, max(score) - min(score) as spread
    from voices
    where (output_id, criterion_id) in (select (output_id, criterion_id) from rated)
    group by output_id, criterion_id
),

final as (
    select output_id, max(spread) as spread
    from spreads
    where spread > 1e-9
    group by output_id
    order by spread desc, output_id
)

select * from final
