-- int_own_category_scores: one row per output_number, category of a criterion that the output's row brought along, with
-- the rubric's criteria of that category. Where one side has gates alone, only the other side's weights count.
with own as (select * from int_own_categories),

categories as (select * from int_categories),

points as (select * from int_category_points),

rubric as (select * from int_rubric),

merged as (
    select
        own.output_number,
        own.group_number,
        own.category,
        coalesce(categories.weight_rank, 0) as rubric_rank,
        greatest(own.weight_rank, rubric_rank) as rank,
        own.weight_rank > 0 or rank = 0 as is_own_counted,
        rubric_rank > 0 or rank = 0 as is_rubric_counted,
        if(is_own_counted, own.points, 0.0) + if(is_rubric_counted, coalesce(points.points, 0.0), 0.0) as points,
        if(own.weight_rank = rank, if(rubric.missing = 'skip', own.scored_base_weight, own.base_weight), 0.0)
            + if(
                rubric_rank = rank,
                coalesce(if(rubric.missing = 'skip', points.base_weight, categories.base_weight), 0.0),
                0.0
            ) as base_weight,
        if(is_own_counted, own.weighted_count - own.scored_weighted_count, 0)
            + if(is_rubric_counted, coalesce(categories.weighted_count, 0) - coalesce(points.weighted_count, 0), 0)
            as missing_count,
        rubric.missing = 'null' and missing_count > 0 as is_open,
        own.mark_count + coalesce(categories.mark_count, 0) as mark_count,
        own.scored_mark_count + coalesce(points.mark_count, 0) as scored_mark_count,
        own.below_mark_count + coalesce(points.below_mark_count, 0) as below_mark_count,
    from own
    cross join rubric
    left join categories on own.category = categories.category
    left join points
        on own.output_number = points.output_number
        and own.category = points.category
),

final as (
    select
        output_number,
        group_number,
        category,
        case when not is_open then points / nullif(base_weight, 0.0) end as score,
        case
            when below_mark_count > 0 then false
            when mark_count > 0 and scored_mark_count = mark_count then true
        end as is_met,
    from merged
)

select * from final
