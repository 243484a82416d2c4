-- An output's score lies between its bounds, at or below 1, and at or above 0 where no weight is negative.
-- severity: error
with scores as (select * from output_scores),

held as (select * from int_held_outputs),

final as (
    select
        scores.output_id,
        scores.score_low,
        scores.score,
        scores.score_high,
    from scores
    inner join held on scores.output_id = held.output_id
    where not (
        scores.score_low <= coalesce(scores.score, scores.score_low)
        and coalesce(scores.score, scores.score_low) <= scores.score_high
        and scores.score_high <= 1 + 1e-9
        and (held.negative_weight < 0 or scores.score_low >= -1e-9)
    )
)

select * from final
