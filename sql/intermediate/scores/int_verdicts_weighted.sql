-- int_verdicts_weighted: one row per output_number, criterion_number with a score in 0..1, with the weight and marks of
-- the criterion.
with verdicts as (select * from int_verdicts_numbered where score is not null),

criteria as (select * from int_criteria_weighted),

final as (
    select
        verdicts.output_number,
        verdicts.group_number,
        verdicts.score,
        criteria.* exclude (output_number, group_number),
    from verdicts
    inner join criteria on verdicts.criterion_number = criteria.criterion_number
)

select * from final
