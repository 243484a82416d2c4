-- int_irregular_outputs_summed: one row per output_number with a missing score or a per-case criterion; few outputs of
-- most runs. applied_totals are over all criteria that apply to the output, scored_totals over those with a score. For
-- any other output both equal the rubric's totals.
-- materialized: table
with rubric as (select * from int_rubric_summed),

case_criteria as (
    select output_number, totals_of(weight, is_weighted, is_gate, threshold) as totals,
    from int_criteria_weighted
    where is_per_case
    group by output_number
),

irregular as (
    select outputs.output_number
    from int_outputs_numbered as outputs
    cross join rubric
    left join int_output_points_summed as points on outputs.output_number = points.output_number
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
    left join int_verdicts_weighted as verdicts on irregular.output_number = verdicts.output_number
    group by irregular.output_number
),

final as (
    select
        scored.output_number,
        scored.scored_totals,
        struct_pack(
            positive_weight := rubric.totals.positive_weight + coalesce(cases.totals.positive_weight, 0.0),
            negative_weight := rubric.totals.negative_weight + coalesce(cases.totals.negative_weight, 0.0),
            positive_count := rubric.totals.positive_count + coalesce(cases.totals.positive_count, 0),
            weighted_count := rubric.totals.weighted_count + coalesce(cases.totals.weighted_count, 0),
            gate_count := rubric.totals.gate_count + coalesce(cases.totals.gate_count, 0),
            threshold_count := rubric.totals.threshold_count + coalesce(cases.totals.threshold_count, 0)
        ) as applied_totals,
    from scored
    cross join rubric
    left join case_criteria as cases on scored.output_number = cases.output_number
)

select * from final
