-- int_output_points_summed: one row per output_number with a scored verdict: sums and counts over its scored verdicts.
-- materialized: table
with verdicts as (select * from int_verdicts_weighted),

final as (
    select
        output_number,
        exact_sum(weight * score) as points,
        exact_unit_sum(sign(weight) * score) as uniform_points,
        count(*) as scored_count,
        countif(is_weighted and is_below(score, threshold)) as below_threshold_count,
    from verdicts
    group by output_number
)

select * from final
