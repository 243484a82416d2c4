-- int_category_points: one row per output_number, category with a scored verdict on the rubric's criteria. Sums and
-- counts over its scored verdicts; points and base_weight are those of int_skip_points where it has them.
with verdicts as (select * from int_verdicts where score is not null),

criteria as (select * from int_category_criteria),

skipped as (select * from int_skip_points),

summed as (
    select
        verdicts.output_number,
        criteria.category,
        exact_sum(criteria.category_weight * verdicts.score) as points,
        exact_sum(criteria.category_base) as base_weight,
        count(*) filter (criteria.category_weight <> 0) as weighted_count,
        count(criteria.pass_mark) as mark_count,
        count(*) filter (is_below(verdicts.score, criteria.pass_mark)) as below_mark_count,
    from verdicts
    inner join criteria on verdicts.criterion_id = criteria.criterion_id
    group by verdicts.output_number, criteria.category
),

final as (
    select
        summed.* replace (
            coalesce(skipped.points, summed.points) as points,
            coalesce(skipped.positive_weight, summed.base_weight) as base_weight
        ),
    from summed
    left join skipped
        on summed.output_number = skipped.output_number
        and summed.category = skipped.root
)

select * from final
