-- rater_counts: one row per rater, criterion_id, in order: how many ratings and outputs. mean_score is 0..1.
with final as (
    select
        rater,
        criterion_id,
        count(*) as rating_count,
        count(distinct output_id) as output_count,
        avg(score) as mean_score,
        max(rated_at) as last_rated_at,
    from ratings
    where score is not null
    group by rater, criterion_id
    order by rater, criterion_id
)

select * from final
