-- rated_sheets: one row per output_id, rater, criterion_id of the relation latest_ratings, in order, with the
-- output's own criteria as JSON. latest_ratings: see agreement/latest_ratings.
with final as (
    select
        latest.output_id,
        latest.rater,
        latest.criterion_id,
        latest.score,
        outputs.criteria,
        outputs.model,
        outputs.checkpoint,
    from latest_ratings as latest
    inner join outputs on latest.output_id = outputs.output_id
    where latest.score is not null
    order by latest.rater, latest.output_id, latest.criterion_id
)

select * from final
