-- int_category_points: one row per output_number, category with a scored verdict. Sums and counts over its scored
-- verdicts.
with verdicts as (select * from int_verdicts where score is not null),

criteria as (select * from int_criteria),

final as (
    select
        verdicts.output_number,
        criteria.category,
        sum(criteria.category_weight * verdicts.score) as points,
        sum(criteria.category_base) as base_weight,
        count(*) filter (criteria.category_weight <> 0) as weighted_count,
        count(criteria.pass_mark) as mark_count,
        count(*) filter (is_below(verdicts.score, criteria.pass_mark)) as below_mark_count,
    from verdicts
    inner join criteria on verdicts.criterion_id = criteria.criterion_id
    group by verdicts.output_number, criteria.category
)

select * from final
