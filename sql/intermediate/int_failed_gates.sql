-- int_failed_gates: one row per output_number that fails a gate, with the criterion ids of its failed gates in order.
with verdicts as (select * from int_scored_verdicts where is_gate),

final as (
    select
        output_number,
        list_sort(list(criterion_id)) as failed_gates,
    from verdicts
    where is_below(score, pass_mark)
    group by output_number
)

select * from final
