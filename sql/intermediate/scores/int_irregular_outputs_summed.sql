-- int_irregular_outputs_summed: one row per output_number with a missing score or a per-case criterion; few outputs of
-- most runs. applied_totals are over all criteria that apply to the output, scored_totals over those with a score. For
-- any other output both equal the rubric's totals. excused_count: weighted criteria that are not required and have no
-- score. unmet_count: those of them whose condition does not hold.
-- materialized: table
with rubric as (select * from int_rubric_summed),

irregular as (
    select outputs.output_number
    from int_outputs_numbered as outputs
    cross join rubric
    left join int_output_points_summed as points on outputs.output_number = points.output_number
    where points.scored_count is distinct from rubric.criterion_count
    union
    select output_number
    from int_criteria_weighted
    where is_per_case
),

-- Criteria that are not required apply to the outputs on which they have, or owe, a score.
further as (
    select verdicts.output_number, verdicts.weight, verdicts.is_weighted, verdicts.is_gate, verdicts.threshold,
        false as is_per_case,
    from irregular
    inner join int_verdicts_weighted as verdicts on irregular.output_number = verdicts.output_number
    where not verdicts.is_required
    union all
    select output_number, weight, is_weighted, is_gate, threshold, false from int_conditional_gaps where is_owed
    union all
    select output_number, weight, is_weighted, is_gate, threshold, true from int_criteria_weighted where is_per_case
),

others as (
    select
        output_number,
        totals_of(weight, is_weighted, is_gate, threshold) as totals,
        countif(is_weighted and not is_per_case)::bigint as optional_count,
    from further
    group by output_number
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
        rubric.totals.weighted_count - required.weighted_count - coalesce(others.optional_count, 0) as excused_count,
        coalesce(unmet.n, 0) as unmet_count,
        struct_pack(
            positive_weight := required.positive_weight + coalesce(others.totals.positive_weight, 0.0),
            negative_weight := required.negative_weight + coalesce(others.totals.negative_weight, 0.0),
            positive_count := required.positive_count + coalesce(others.totals.positive_count, 0),
            weighted_count := required.weighted_count + coalesce(others.totals.weighted_count, 0),
            gate_count := required.gate_count + coalesce(others.totals.gate_count, 0),
            threshold_count := required.threshold_count + coalesce(others.totals.threshold_count, 0)
        ) as applied_totals,
    from scored
    cross join (select totals, required_totals as required from rubric) as rubric
    left join others on scored.output_number = others.output_number
    left join (
        select output_number, countif(is_weighted)::bigint as n
        from int_conditional_gaps
        where is_unmet
        group by output_number
    ) as unmet on scored.output_number = unmet.output_number
)

select * from final
