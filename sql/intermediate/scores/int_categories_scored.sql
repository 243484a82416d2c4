-- int_categories_scored: one row per output_number, category of a criterion that applies to the output. score is the
-- weighted mean of the category's criteria, of the rubric and per-case; if one kind has only gates there, only the
-- other kind's weights count. It is null where the output has only penalties there. least_score is the lowest possible
-- score. is_met: all gates and thresholds of the category are met, null where unknown.
-- materialized: table
with categories as (select * from int_categories_summed),

-- Only an irregular output can be without a scored verdict in a category of the rubric.
rubric_parts as (
    select * from int_category_points_summed where category_number > 0
    union all by name
    select outputs.output_number, categories.category_number,
    from int_irregular_outputs_summed as outputs
    cross join categories
    anti join int_category_points_summed as points
        on outputs.output_number = points.output_number and categories.category_number = points.category_number
    where categories.output_number is null
),

case_parts as (
    select
        categories.*,
        points.* exclude (output_number, category_number) rename (
            base_weight as scored_base_weight, weighted_count as scored_weighted_count, mark_count as scored_mark_count
        ),
    from categories
    left join int_category_points_summed as points
        on categories.output_number = points.output_number
        and categories.category_number = points.category_number
    where categories.output_number is not null
),

merged as (
    select
        coalesce(parts.output_number, cases.output_number) as output_number,
        coalesce(categories.category, cases.category) as category,
        coalesce(categories.weight_rank, 0) as rubric_rank,
        coalesce(cases.weight_rank, 0) as case_rank,
        greatest(rubric_rank, case_rank) as rank,
        if(rubric_rank > 0 or rank = 0, parts.points, 0.0) as rubric_points,
        if(case_rank > 0 or rank = 0, cases.points, 0.0) as case_points,
        coalesce(applied.base_weight, categories.base_weight) as applied_base,
        if(rubric_rank = rank, if(rubric.missing = 'skip', parts.base_weight, applied_base), 0.0) as rubric_base,
        if(case_rank = rank, if(rubric.missing = 'skip', cases.scored_base_weight, cases.base_weight), 0.0)
            as case_base,
        coalesce(applied.penalty_weight, categories.penalty_weight, 0.0) + coalesce(cases.penalty_weight, 0.0)
            as penalty_weight,
        coalesce(applied.weighted_count, categories.weighted_count) as applied_count,
        if(rubric_rank > 0 or rank = 0, applied_count - coalesce(parts.weighted_count, 0), 0) as rubric_missing_count,
        if(case_rank > 0 or rank = 0, cases.weighted_count - coalesce(cases.scored_weighted_count, 0), 0)
            as case_missing_count,
        coalesce(applied.mark_count, categories.mark_count, 0) + coalesce(cases.mark_count, 0) as mark_count,
        coalesce(parts.mark_count, 0) + coalesce(cases.scored_mark_count, 0) as scored_mark_count,
        coalesce(parts.below_mark_count, 0) + coalesce(cases.below_mark_count, 0) as below_mark_count,
        rubric.missing = 'null' and coalesce(rubric_missing_count, 0) + coalesce(case_missing_count, 0) > 0 as is_open,
    from rubric_parts as parts
    inner join categories on parts.category_number = categories.category_number
    left join int_categories_applied as applied
        on parts.output_number = applied.output_number and parts.category_number = applied.category_number
    full join case_parts as cases on parts.output_number = cases.output_number and categories.category = cases.category
    cross join int_rubric_summed as rubric
    where not coalesce(applied.is_out, false) or cases.category is not null
),

final as (
    select
        outputs.output_number, outputs.group_number, merged.category,
        nullif(coalesce(rubric_base, 0.0) + coalesce(case_base, 0.0), 0.0) as base_weight,
        if(is_open, null, coalesce(rubric_points, 0.0) + coalesce(case_points, 0.0)) / base_weight as score,
        coalesce(least(penalty_weight / base_weight, 0.0), 0.0) as least_score,
        case
            when below_mark_count > 0 then false
            when mark_count > 0 and scored_mark_count = mark_count then true
        end as is_met,
    from merged
    inner join int_outputs_numbered as outputs on merged.output_number = outputs.output_number
)

select * from final
