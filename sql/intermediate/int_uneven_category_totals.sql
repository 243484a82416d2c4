-- int_uneven_category_totals: one row per output_number of int_uneven_outputs, category with a scored verdict on the
-- rubric's criteria: what the scored ones of the category add up to.
with outputs as (select * from int_uneven_outputs),

verdicts as (select * from int_verdicts where score is not null),

criteria as (select * from int_category_criteria),

final as (
    select
        verdicts.output_number,
        criteria.category_number,
        exact_sum(criteria.category_base) as base_weight,
        count(*) filter (criteria.category_weight <> 0) as weighted_count,
        count(criteria.pass_mark) as mark_count,
    from outputs
    inner join verdicts on outputs.output_number = verdicts.output_number
    inner join criteria on verdicts.criterion_number = criteria.criterion_number
    group by verdicts.output_number, criteria.category_number
)

select * from final
