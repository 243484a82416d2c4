-- exported_ratings: one row per output_id, criterion_id, rater, in order: the latest rating of a rater, of those
-- without a score the ones with a note, and the output that it rates. Of the outputs of the run $run_id, or of all if
-- it is null.
with chosen as (
    select output_id
    from output_scores
    where run_id = $run_id
),

standing as (
    select *
    from {ratings/current_ratings}
    where $run_id is null or output_id in (from chosen)
),

final as (
    select
        standing.output_id,
        outputs.case_id,
        outputs.model,
        outputs.checkpoint,
        outputs.sample_index,
        standing.criterion_id,
        standing.rater,
        standing.level_id,
        standing.score,
        standing.notes,
        standing.rated_at,
        standing.selection,
        standing.inclusion_rate,
        outputs.prompt,
        outputs.output,
        outputs.criteria,
    from standing
    inner join outputs on standing.output_id = outputs.output_id
    where standing.score is not null or nullif(standing.notes, '') is not null
    order by outputs.case_id, standing.output_id, standing.rater, standing.rated_at, standing.criterion_id
)

select * from final
