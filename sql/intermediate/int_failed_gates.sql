-- int_failed_gates: one row per output_number that fails a gate, with the criterion ids of its failed gates in order.
with verdicts as (select * from int_verdicts where score is not null),

gates as (select * from int_criteria where is_gate),

final as (
    select
        verdicts.output_number,
        list_sort(list(verdicts.criterion_id)) as failed_gates,
    from verdicts
    inner join gates on verdicts.criterion_id = gates.criterion_id
    where is_below(verdicts.score, gates.pass_mark)
    group by verdicts.output_number
)

select * from final
