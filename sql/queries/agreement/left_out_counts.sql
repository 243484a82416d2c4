-- left_out_counts: one row per criterion_id, model, checkpoint, selection of the run $run_id, in order: the latest
-- ratings of outputs that a rule chose for rating, drawn_count of them by the judge's doubt with a known probability.
-- $criteria: these criteria; null: all.
with outputs_of_run as (select output_id, model, checkpoint from output_scores where run_id = $run_id),

final as (
    select ratings.criterion_id, outputs.model, outputs.checkpoint, ratings.selection, count(*) as rating_count,
        count(ratings.doubt_score) filter (ratings.selection = 'uncertain') as drawn_count
    from latest_ratings as ratings
    inner join outputs_of_run as outputs on ratings.output_id = outputs.output_id
    where
        ratings.selection not in ('random', 'calibration')
        and ($criteria::varchar[] is null or list_contains($criteria, ratings.criterion_id))
    group by ratings.criterion_id, outputs.model, outputs.checkpoint, ratings.selection
    order by ratings.criterion_id, outputs.model, outputs.checkpoint, ratings.selection
)

select * from final
