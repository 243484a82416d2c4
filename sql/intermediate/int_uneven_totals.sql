-- int_uneven_totals: one row per output_number of int_uneven_outputs: what its scored criteria add up to, so that what
-- is missing, as a gap or as no row at all, is what the totals have more.
-- materialized: table
with outputs as (select * from int_uneven_outputs),

verdicts as (select * from int_scored_verdicts),

final as (
    select
        outputs.output_number,
        coalesce(exact_sum(greatest(verdicts.weight, 0.0)), 0.0) as positive_weight,
        coalesce(exact_sum(least(verdicts.weight, 0.0)), 0.0) as negative_weight,
        count(*) filter (verdicts.weight > 0) as positive_count,
        count(*) filter (verdicts.is_weighted) as weighted_count,
        count(*) filter (verdicts.is_gate) as gate_count,
        count(*) filter (verdicts.is_weighted and verdicts.threshold is not null) as threshold_count,
    from outputs
    left join verdicts on outputs.output_number = verdicts.output_number
    group by outputs.output_number
)

select * from final
