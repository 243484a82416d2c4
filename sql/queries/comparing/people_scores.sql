-- people_scores: one row per output_id, criterion_id that people gave a score (0..1): the decision of an adjudicator,
-- or else the mean of the ratings in latest_ratings.
with rated as (
    select output_id, criterion_id, avg(score) as score
    from latest_ratings
    where score is not null
    group by output_id, criterion_id
),

final as (
    select
        coalesce(decided.output_id, rated.output_id) as output_id,
        coalesce(decided.criterion_id, rated.criterion_id) as criterion_id,
        coalesce(decided.score, rated.score) as score,
    from rated
    full join latest_decisions as decided
        on rated.output_id = decided.output_id
        and rated.criterion_id = decided.criterion_id
    where coalesce(decided.score, rated.score) is not null
)

select * from final
