-- int_category_points: one row per output_number, category with a scored verdict on the rubric's criteria. Sums and
-- counts over its scored verdicts; points and base_weight are those of int_skip_points where it has them.
-- materialized: table
with verdicts as (select * from int_verdicts where score is not null),

criteria as (select * from int_category_criteria),

categories as (select * from int_categories),

skipped as (select * from int_skip_points),

summed as (
    select
        verdicts.output_number,
        criteria.category_number,
        exact_sum(criteria.category_weight * verdicts.score) as points,
        countif(is_below(verdicts.score, criteria.pass_mark)) as below_mark_count,
    from verdicts
    inner join criteria on verdicts.criterion_number = criteria.criterion_number
    group by verdicts.output_number, criteria.category_number
),

final as (
    select
        summed.output_number,
        categories.category,
        coalesce(skipped.points, summed.points) as points,
        coalesce(skipped.positive_weight, uneven.base_weight, categories.base_weight) as base_weight,
        coalesce(uneven.weighted_count, categories.weighted_count) as weighted_count,
        coalesce(uneven.mark_count, categories.mark_count) as mark_count,
        summed.below_mark_count,
    from summed
    inner join categories on summed.category_number = categories.category_number
    left join int_uneven_category_totals as uneven
        on summed.output_number = uneven.output_number
        and summed.category_number = uneven.category_number
    left join skipped
        on summed.output_number = skipped.output_number
        and categories.category = skipped.root
)

select * from final
