-- int_categories_applied: one row per output_number with a missing score or a per-case criterion, category_number of
-- the rubric: totals over the criteria that apply to the output. is_out: no criterion of the category does, by their
-- conditions. Without rows where every criterion is required.
-- empty without: int_irregular_outputs_summed
-- materialized: table
with criteria as (
    select * exclude (output_number)
    from int_category_criteria_weighted
    where category_number > 0
),

applicable as (
    select
        outputs.output_number,
        criteria.*,
        criteria.is_required or verdicts.score is not null or coalesce(gaps.is_owed, false) as is_applied,
        coalesce(gaps.is_unmet, false) as is_unmet,
    from int_irregular_outputs_summed as outputs
    cross join int_rubric_summed as rubric
    cross join criteria
    left join int_verdicts_numbered as verdicts
        on outputs.output_number = verdicts.output_number
        and criteria.criterion_number = verdicts.criterion_number
    left join int_conditional_gaps as gaps
        on outputs.output_number = gaps.output_number
        and criteria.criterion_number = gaps.criterion_number
    where rubric.optional_count > 0
),

final as (
    select
        output_number,
        category_number,
        exact_sum(if(is_applied, category_base, 0.0)) as base_weight,
        exact_sum(if(is_applied, least(category_weight, 0.0), 0.0)) as penalty_weight,
        countif(is_applied and category_weight <> 0) as weighted_count,
        countif(is_applied and pass_mark is not null) as mark_count,
        bool_and(is_unmet) as is_out,
    from applicable
    group by output_number, category_number
)

select * from final
