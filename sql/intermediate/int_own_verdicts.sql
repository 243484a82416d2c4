-- int_own_verdicts: one row per output_number, criterion_id that the output's row brought along, with its score in
-- 0..1, null where it is unscored or has no verdict.
-- materialized: table
with criteria as (select * from int_own_criteria),

verdicts as (select * from int_verdicts),

final as (
    select
        criteria.*,
        verdicts.score,
    from criteria
    left join verdicts
        on criteria.output_number = verdicts.output_number
        and criteria.criterion_number = verdicts.criterion_number
)

select * from final
