-- overall_ratings: one row per scored output of the run $run_id that people rated as a whole: their mean rating on the
-- rubric's overall row beside the weighted score, both 0..1. latest_ratings: see agreement/latest_ratings.
with rated as (
    select output_id, avg(score) as rating,
    from latest_ratings
    where criterion_id = 'overall' and score is not null
    group by output_id
),

final as (
    select
        scores.model,
        scores.checkpoint,
        coalesce(outputs.cluster, scores.case_id) as case_id,
        rated.rating,
        scores.score,
    from output_scores as scores
    inner join rated on scores.output_id = rated.output_id
    inner join outputs on scores.output_id = outputs.output_id
    where scores.run_id = $run_id and scores.score is not null
    order by scores.model, scores.checkpoint, scores.output_id
)

select * from final
