-- int_category_scores: one row per output_number, category that the output is held to. score is the weighted mean of
-- the category's criteria, with gaps as the rubric's `missing` says; is_met is whether all its gates and thresholds
-- hold, null where that is unknown.
-- materialized: table
with categories as (select * from int_categories),

points as (select * from int_category_points),

rubric as (select * from int_rubric),

own as (select * from int_own_category_scores),

-- An even output has a scored verdict in every category.
held as (
    select *
    from points
    union all by name
    select uneven.output_number, categories.category,
    from int_uneven_outputs as uneven
    cross join categories
    anti join points
        on uneven.output_number = points.output_number
        and categories.category = points.category
),

final as (
    select
        held.output_number,
        outputs.group_number,
        held.category,
        case
            when rubric.missing <> 'null' or held.weighted_count = categories.weighted_count then
                coalesce(held.points, 0.0)
                / nullif(if(rubric.missing = 'skip', held.base_weight, categories.base_weight), 0.0)
        end as score,
        case
            when held.below_mark_count > 0 then false
            when categories.mark_count > 0 and held.mark_count = categories.mark_count then true
        end as is_met,
    from held
    inner join int_outputs as outputs on held.output_number = outputs.output_number
    inner join categories on held.category = categories.category
    cross join rubric
    anti join own
        on held.output_number = own.output_number
        and held.category = own.category
    union all by name
    select output_number, group_number, category, score, is_met,
    from own
)

select * from final
