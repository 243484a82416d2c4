-- int_criteria_weighted: one row per criterion_id of the rubric, and one per output_number, criterion_id of a per-case
-- criterion. criterion_number identifies the row within this run, below 0 for a per-case criterion. output_number is
-- null for a criterion of the rubric. weight has one scale for both kinds; weight_share is the share of the rubric's
-- positive weights, null for a gate or a per-case criterion. is_required: it applies to every output, with a score or
-- without; one with a condition does not.
-- materialized: table
with roots as (select * from int_trees_summed where root = ''),

totals as (
    select exact_sum(greatest(weight, 0.0)) as weight,
    from stg_criteria
),

rubric_criteria as (
    select
        (row_number() over (order by criteria.criterion_id))::integer as criterion_number,
        criteria.* replace (criteria.weight * coalesce(roots.positive_weight, 1.0) as weight),
        criteria.weight <> 0 as is_weighted,
        case when not criteria.is_gate then coalesce(criteria.weight / nullif(totals.weight, 0.0), 0.0) end
            as weight_share,
    from stg_criteria as criteria
    cross join totals
    left join roots on true
),

case_criteria as (
    select
        (-row_number() over ())::integer as criterion_number,
        outputs.output_number,
        outputs.group_number,
        criteria.* exclude (output_id),
        criteria.weight <> 0 as is_weighted,
    from stg_case_criteria as criteria
    inner join int_outputs_numbered as outputs on criteria.output_id = outputs.output_id
),

joined as (
    select * from rubric_criteria
    union all by name
    select * from case_criteria
),

final as (
    select
        criterion_number,
        output_number,
        group_number,
        criterion_number < 0 as is_per_case,
        joined.criterion_id,
        category,
        weight,
        is_weighted,
        is_gate,
        coalesce(joined.is_required, true) and conditions.criterion_id is null as is_required,
        threshold,
        case when is_gate then gate_threshold else threshold end as pass_mark,
        weight_share,
    from joined
    left join source_conditions as conditions
        on joined.criterion_id = conditions.criterion_id
        and joined.criterion_number > 0
)

select * from final
