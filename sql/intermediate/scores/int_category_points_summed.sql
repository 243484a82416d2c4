-- int_category_points_summed: one row per output_number, category_number with a scored verdict: sums and counts over
-- the scored verdicts. points and base_weight come from int_trees_reweighted where it has a row.
-- materialized: table
with criteria as (select * from int_category_criteria_weighted),

categories as (select * from int_categories_summed where output_number is null),

summed as (
    select
        verdicts.output_number,
        criteria.category_number,
        exact_sum(criteria.category_weight * verdicts.score) as points,
        countif(is_below(verdicts.score, criteria.pass_mark)) as below_mark_count,
    from int_verdicts_numbered as verdicts
    inner join criteria on verdicts.criterion_number = criteria.criterion_number
    where verdicts.score is not null
    group by verdicts.output_number, criteria.category_number
),

-- Every other output has a score on all criteria of the rubric, and no per-case criterion.
irregular as (
    select
        verdicts.output_number,
        criteria.category_number,
        exact_sum(criteria.category_base) as base_weight,
        count(*) filter (criteria.category_weight <> 0) as weighted_count,
        count(criteria.pass_mark) as mark_count,
    from int_irregular_outputs_summed as outputs
    inner join int_verdicts_numbered as verdicts on outputs.output_number = verdicts.output_number
    inner join criteria on verdicts.criterion_number = criteria.criterion_number
    where verdicts.score is not null
    group by verdicts.output_number, criteria.category_number
),

final as (
    select
        summed.output_number,
        summed.category_number,
        coalesce(trees.points, summed.points) as points,
        coalesce(trees.positive_weight, irregular.base_weight, categories.base_weight) as base_weight,
        coalesce(irregular.weighted_count, categories.weighted_count) as weighted_count,
        coalesce(irregular.mark_count, categories.mark_count) as mark_count,
        summed.below_mark_count,
    from summed
    left join categories on summed.category_number = categories.category_number
    left join irregular
        on summed.output_number = irregular.output_number
        and summed.category_number = irregular.category_number
    left join int_trees_reweighted as trees
        on summed.output_number = trees.output_number
        and categories.category = trees.root
)

select * from final
