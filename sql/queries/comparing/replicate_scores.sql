-- replicate_scores: one row per output_id, criterion_id, judge, replicate below $replicate_count of the outputs that
-- count, in this order: score (0..1, null if unscored) and the level's place among the criterion's levels by id, -1 if
-- unscored.
with final as (
    select
        output_id,
        criterion_id,
        score,
        if(score is null, -1, dense_rank() over (partition by criterion_id order by level_id) - 1) as level_place,
    from run_opinions
    where replicate < $replicate_count and output_id in (select output_id from source_outputs)
    order by output_id, criterion_id, judge, replicate
)

select * from final
