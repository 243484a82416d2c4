-- int_scored_verdicts: one row per output_number, criterion_id with a score in 0..1, on a criterion of the rubric or
-- one that the output's row brought along, with what the criterion weighs and asks.
with verdicts as (select * from int_verdicts where score is not null),

criteria as (select * from int_criteria),

own as (select * from int_own_verdicts where score is not null),

final as (
    select
        verdicts.output_number, criteria.criterion_id, verdicts.score,
        criteria.weight, criteria.is_weighted, criteria.is_gate, criteria.threshold, criteria.pass_mark,
        false as is_own,
    from verdicts
    inner join criteria on verdicts.criterion_number = criteria.criterion_number
    union all
    select
        output_number, criterion_id, score,
        weight, is_weighted, is_gate, threshold, pass_mark,
        true as is_own,
    from own
)

select * from final
