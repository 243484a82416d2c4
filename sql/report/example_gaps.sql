-- example_gaps: one row per output_id of the run $1, ordered by the distance to another model's better answer to the
-- same case and sample. At most $2 rows; place counts from 1. For runs without any other kind of example.
with answers as (
    select
        case_id,
        sample_index,
        arg_min(output_id, (score, output_id)) as output_id,
        max(score) - min(score) as gap,
    from output_scores
    where run_id = $1
    group by case_id, sample_index
    having count(distinct (model, checkpoint)) > 1 and max(score) - min(score) > 1e-9
),

final as (
    select
        'apart' as kind,
        output_id,
        row_number() over (order by gap desc, output_id) as place,
    from answers
    qualify place <= $2
)

select * from final
