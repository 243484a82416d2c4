-- int_output_points: one row per output_number with a scored verdict. Sums and counts over its scored verdicts alone,
-- so that what is missing, as a gap or as no row at all, is what the totals have more.
with verdicts as (select * from int_scored_verdicts),

final as (
    select
        output_number,
        exact_sum(weight * score) as points,
        exact_sum(greatest(weight, 0.0)) as positive_weight,
        exact_sum(least(weight, 0.0)) as negative_weight,
        exact_sum(sign(weight) * score) as uniform_points,
        count(*) filter (weight > 0) as positive_count,
        count(*) filter (is_weighted) as weighted_count,
        count(*) filter (is_gate) as gate_count,
        count(*) filter (is_weighted and threshold is not null) as threshold_count,
        count(*) filter (is_weighted and is_below(score, threshold)) as below_threshold_count,
    from verdicts
    group by output_number
)

select * from final
