-- int_irregular_outputs_summed: one row per output_number with a missing score or a per-case criterion; few outputs of
-- most runs. applied_totals are over all criteria that apply to the output, scored_totals over those with a score. For
-- any other output both equal the rubric's totals. excused_count: weighted criteria that are not required and have no
-- score.
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

-- Criteria that are not required apply to the outputs on which they have a score.
optional as (
    select
        verdicts.output_number,
        totals_of(verdicts.weight, verdicts.is_weighted, verdicts.is_gate, verdicts.threshold) as totals,
    from irregular
    inner join int_verdicts_weighted as verdicts on irregular.output_number = verdicts.output_number
    where not verdicts.is_required
    group by verdicts.output_number
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
        rubric.totals.weighted_count - rubric.required_totals.weighted_count
            - coalesce(optional.totals.weighted_count, 0) as excused_count,
        struct_pack(
            positive_weight := rubric.required_totals.positive_weight + coalesce(optional.totals.positive_weight, 0.0)
                + coalesce(cases.totals.positive_weight, 0.0),
            negative_weight := rubric.required_totals.negative_weight + coalesce(optional.totals.negative_weight, 0.0)
                + coalesce(cases.totals.negative_weight, 0.0),
            positive_count := rubric.required_totals.positive_count + coalesce(optional.totals.positive_count, 0)
                + coalesce(cases.totals.positive_count, 0),
            weighted_count := rubric.required_totals.weighted_count + coalesce(optional.totals.weighted_count, 0)
                + coalesce(cases.totals.weighted_count, 0),
            gate_count := rubric.required_totals.gate_count + coalesce(optional.totals.gate_count, 0)
                + coalesce(cases.totals.gate_count, 0),
            threshold_count := rubric.required_totals.threshold_count + coalesce(optional.totals.threshold_count, 0)
                + coalesce(cases.totals.threshold_count, 0)
        ) as applied_totals,
    from scored
    cross join rubric
    left join case_criteria as cases on scored.output_number = cases.output_number
    left join optional on scored.output_number = optional.output_number
)

select * from final
