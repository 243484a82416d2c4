-- int_categories_scored: one row per output_number, category of a criterion that applies to the output. score is the
-- weighted mean of the category's criteria; the rubric's `missing` says how missing scores count. is_met: all gates and
-- thresholds of the category are met, null where unknown. Criteria of the rubric and per-case criteria count together;
-- if one kind has only gates there, only the other kind's weights count.
-- materialized: table
with categories as (select * from int_categories_summed),

points as (select * from int_category_points_summed),

-- Only an irregular output can be without a scored verdict in a category.
rubric_parts as (
    select *
    from points
    union all by name
    select outputs.output_number, categories.category,
    from int_irregular_outputs_summed as outputs
    cross join categories
    anti join points
        on outputs.output_number = points.output_number
        and categories.category = points.category
),

merged as (
    select
        coalesce(parts.output_number, case_parts.output_number) as output_number,
        coalesce(parts.category, case_parts.category) as category,
        coalesce(categories.weight_rank, 0) as rubric_rank,
        coalesce(case_parts.weight_rank, 0) as case_rank,
        greatest(rubric_rank, case_rank) as rank,
        if(rubric_rank > 0 or rank = 0, parts.points, 0.0) as rubric_points,
        if(case_rank > 0 or rank = 0, case_parts.points, 0.0) as case_points,
        if(rubric.missing = 'skip', parts.base_weight, categories.base_weight) as rubric_base,
        if(rubric.missing = 'skip', case_parts.scored_base_weight, case_parts.base_weight) as case_base,
        if(rubric_rank > 0 or rank = 0, categories.weighted_count - coalesce(parts.weighted_count, 0), 0)
            as rubric_missing_count,
        if(case_rank > 0 or rank = 0, case_parts.weighted_count - case_parts.scored_weighted_count, 0)
            as case_missing_count,
        coalesce(categories.mark_count, 0) + coalesce(case_parts.mark_count, 0) as mark_count,
        coalesce(parts.mark_count, 0) + coalesce(case_parts.scored_mark_count, 0) as scored_mark_count,
        coalesce(parts.below_mark_count, 0) + coalesce(case_parts.below_mark_count, 0) as below_mark_count,
        rubric.missing = 'null' and coalesce(rubric_missing_count, 0) + coalesce(case_missing_count, 0) > 0 as is_open,
    from rubric_parts as parts
    inner join categories on parts.category = categories.category
    full join int_case_categories_summed as case_parts
        on parts.output_number = case_parts.output_number
        and parts.category = case_parts.category
    cross join int_rubric_summed as rubric
),

final as (
    select
        outputs.output_number,
        outputs.group_number,
        merged.category,
        case
            when not is_open then
                (coalesce(rubric_points, 0.0) + coalesce(case_points, 0.0))
                / nullif(
                    if(rubric_rank = rank, coalesce(rubric_base, 0.0), 0.0)
                    + if(case_rank = rank, coalesce(case_base, 0.0), 0.0),
                    0.0
                )
        end as score,
        case
            when below_mark_count > 0 then false
            when mark_count > 0 and scored_mark_count = mark_count then true
        end as is_met,
    from merged
    inner join int_outputs_numbered as outputs on merged.output_number = outputs.output_number
)

select * from final
