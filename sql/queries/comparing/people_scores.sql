-- people_scores: one row per output_id, criterion_id of which people rated a sample: the decision of an adjudicator, or
-- else the mean of the ratings in latest_ratings. score is in 0..1. Outputs that only a rule chose for rating, such as
-- those the judge is unsure of, are left out: they are not like the others.
with rated as (
    select output_id, criterion_id, avg(sample_score) as score
    from latest_ratings
    where sample_score is not null
    group by output_id, criterion_id
),

final as (
    select rated.output_id, rated.criterion_id, coalesce(decided.score, rated.score) as score,
    from rated
    left join latest_decisions as decided
        on rated.output_id = decided.output_id
        and rated.criterion_id = decided.criterion_id
)

select * from final
