-- outliers: one row per output of the run $run_id with an overall score more than 1.5 times the middle half's width
-- below or above it (Tukey 1977), of its model and checkpoint; the $most_count farthest of each. outlier_count: of the
-- model and checkpoint.
with boxes as (
    select model, checkpoint, p25, p75, p75 - p25 as width,
    from run_scores
    where run_id = $run_id
),

final as (
    select
        scores.output_id,
        scores.case_id,
        scores.model,
        scores.checkpoint,
        scores.score,
        count(*) over (partition by scores.model, scores.checkpoint) as outlier_count,
    from output_scores as scores
    inner join boxes
        on scores.model = boxes.model
        and scores.checkpoint is not distinct from boxes.checkpoint
    where scores.run_id = $run_id
        and (scores.score < boxes.p25 - 1.5 * boxes.width - 1e-9 or scores.score > boxes.p75 + 1.5 * boxes.width + 1e-9)
    qualify row_number() over (
        partition by scores.model, scores.checkpoint
        order by greatest(boxes.p25 - scores.score, scores.score - boxes.p75) desc, scores.output_id
    ) <= $most_count
    order by scores.model, scores.checkpoint, scores.score, scores.output_id
)

select * from final
