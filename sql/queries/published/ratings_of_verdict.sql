-- ratings_of_verdict: one row per rating of the output $output_id on the criterion $criterion_id that answers the run's
-- question (asked_ratings), oldest first.
with final as (
    select rater, level_id, score, notes, rated_at, source
    from asked_ratings
    where output_id = $output_id and criterion_id = $criterion_id
    order by rated_at nulls first, rater
)

select * from final
