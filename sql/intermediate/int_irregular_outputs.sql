-- int_irregular_outputs: one row per output_number with a missing score or a per-case criterion. applied_totals are of all
-- criteria that apply to the output, scored_totals of those with a score; both are the rubric's totals for every other
-- output. Few outputs of most runs are irregular.
-- materialized: table
with rubric as (select * from int_rubric),

case_criteria as (
    select output_number, totals_of(weight, is_weighted, is_gate, threshold) as totals,
    from int_criteria
    where is_per_case
    group by output_number
),

irregular as (
    select outputs.output_number
    from int_outputs as outputs
    cross join rubric
    left join int_output_points as points on outputs.output_number = points.output_number
    where points.scored_count is distinct from rubric.criterion_count
    union
    select output_number
    from case_criteria
),

scored as (
    select
        irregular.output_number,
        totals_of(verdicts.weight, verdicts.is_weighted, verdicts.is_gate, verdicts.threshold) as scored_totals,
    from irregular
    left join int_scored_verdicts as verdicts on irregular.output_number = verdicts.output_number
    group by irregular.output_number
),

final as (
    select
        scored.output_number,
        scored.scored_totals,
        struct_pack(
            positive_weight := rubric.totals.positive_weight + coalesce(own.totals.positive_weight, 0.0),
            negative_weight := rubric.totals.negative_weight + coalesce(own.totals.negative_weight, 0.0),
            positive_count := rubric.totals.positive_count + coalesce(own.totals.positive_count, 0),
            weighted_count := rubric.totals.weighted_count + coalesce(own.totals.weighted_count, 0),
            gate_count := rubric.totals.gate_count + coalesce(own.totals.gate_count, 0),
            threshold_count := rubric.totals.threshold_count + coalesce(own.totals.threshold_count, 0)
        ) as applied_totals,
    from scored
    cross join rubric
    left join case_criteria as own on scored.output_number = own.output_number
)

select * from final
