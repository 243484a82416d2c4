-- example_gaps: one row per output_id of the run $run_id whose score is the farthest below that of another model's
-- answer to the same case and sample; at most $most_count, place counts from 1. A fallback for runs without other
-- examples.
with answers as (
    select
        case_id,
        sample_index,
        arg_min(output_id, (score, output_id)) as output_id,
        max(score) - min(score) as gap,
    from output_scores
    where run_id = $run_id
    group by case_id, sample_index
    having count(distinct (model, checkpoint)) > 1 and max(score) - min(score) > 1e-9
),

final as (
    select
        'apart' as kind,
        output_id,
        row_number() over (order by gap desc, output_id) as place,
    from answers
    qualify place <= $most_count
)

select * from final
