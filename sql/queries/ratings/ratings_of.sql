-- ratings_of: one row per rating of the output or case $name, in order. score is 0..1.
with final as (
    select
        outputs.case_id,
        outputs.model,
        ratings.criterion_id,
        ratings.rater,
        ratings.level_id,
        ratings.score,
        outputs.checkpoint,
        outputs.sample_index,
        ratings.notes,
        ratings.* exclude (criterion_id, rater, level_id, score, notes, output_id),
        ratings.output_id,
    from ratings
    left join outputs on ratings.output_id = outputs.output_id
    where ratings.output_id = $name or outputs.case_id = $name
    order by
        outputs.case_id,
        outputs.model,
        outputs.checkpoint,
        outputs.sample_index,
        ratings.output_id,
        ratings.criterion_id,
        ratings.rater,
        ratings.rated_at
)

select * from final
