-- int_case_categories_summed: one row per output_number, category of a per-case criterion: totals over the output's
-- per-case criteria in the category, and (scored_) over the scored ones. weight_rank, weights and bases are defined as
-- in int_category_criteria_weighted.
with criteria as (select * from int_criteria_weighted where is_per_case),

verdicts as (select * from int_verdicts_numbered where score is not null),

ranked as (
    select
        criteria.*,
        verdicts.score,
        max(if(weight > 0, 2, if(weight < 0, 1, 0)))
            over (partition by criteria.output_number, criteria.category) as weight_rank,
    from criteria
    left join verdicts on criteria.criterion_number = verdicts.criterion_number
),

weighed as (
    select
        *,
        if(weight_rank = 0, 1.0, weight) as category_weight,
        case weight_rank when 2 then greatest(weight, 0.0) when 1 then weight else 1.0 end as category_base,
    from ranked
),

final as (
    select
        output_number,
        group_number,
        category,
        weight_rank,
        exact_sum(category_base) as base_weight,
        count(*) filter (category_weight <> 0) as weighted_count,
        count(pass_mark) as mark_count,
        coalesce(exact_sum(category_weight * score), 0.0) as points,
        coalesce(exact_sum(if(score is not null, category_base, null)), 0.0) as scored_base_weight,
        count(*) filter (category_weight <> 0 and score is not null) as scored_weighted_count,
        count(pass_mark) filter (score is not null) as scored_mark_count,
        count(*) filter (is_below(score, pass_mark)) as below_mark_count,
    from weighed
    group by output_number, group_number, category, weight_rank
)

select * from final
