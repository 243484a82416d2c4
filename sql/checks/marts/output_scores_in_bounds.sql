-- An output's score lies between its bounds, at or below 1, and at or above 0 where no weight is negative.
-- severity: error
with scores as (select * from output_scores),

totals as (
    select outputs.output_id, coalesce(irregular.applied_totals, rubric.totals).negative_weight as negative_weight,
    from int_outputs_numbered as outputs
    cross join int_rubric_summed as rubric
    left join int_irregular_outputs_summed as irregular on outputs.output_number = irregular.output_number
),

final as (
    select
        scores.output_id,
        scores.score_low,
        scores.score,
        scores.score_high,
    from scores
    inner join totals on scores.output_id = totals.output_id
    where not (
        scores.score_low <= coalesce(scores.score, scores.score_low)
        and coalesce(scores.score, scores.score_low) <= scores.score_high
        and scores.score_high <= 1 + 1e-9
        and (totals.negative_weight < 0 or scores.score_low >= -1e-9)
    )
)

select * from final
