-- int_scored_verdicts: one row per output_number, criterion_number with a score in 0..1, with the criterion's weight and
-- marks.
with verdicts as (select * from int_verdicts where score is not null),

criteria as (select * from int_criteria),

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
