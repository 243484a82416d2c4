-- int_category_scores: one row per output_number, category that the output is held to. score is the weighted mean of
-- the category's criteria, with gaps as the rubric's `missing` says; is_met is whether all its gates and thresholds
-- hold, null where that is unknown.
with outputs as (select * from int_outputs),

categories as (select * from int_categories),

points as (select * from int_category_points),

rubric as (select * from int_rubric),

own as (select * from int_own_category_scores),

final as (
    select
        outputs.output_number,
        outputs.model,
        outputs.checkpoint,
        categories.category,
        case
            when rubric.missing <> 'null' or points.weighted_count = categories.weighted_count then
                coalesce(points.points, 0.0)
                / nullif(if(rubric.missing = 'skip', points.base_weight, categories.base_weight), 0.0)
        end as score,
        case
            when points.below_mark_count > 0 then false
            when categories.mark_count > 0 and points.mark_count = categories.mark_count then true
        end as is_met,
    from outputs
    cross join categories
    cross join rubric
    left join points
        on outputs.output_number = points.output_number
        and categories.category = points.category
    anti join own
        on outputs.output_number = own.output_number
        and categories.category = own.category
    union all by name
    select output_number, model, checkpoint, category, score, is_met,
    from own
)

select * from final
