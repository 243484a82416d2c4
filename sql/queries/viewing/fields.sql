-- fields: keys of the metadata of 1,000 outputs of the run $run_id, by name, at most 100.
with some_outputs as (
    select outputs.metadata
    from outputs
    semi join (select output_id from output_scores where run_id = $run_id) as scores
        on outputs.output_id = scores.output_id
    where outputs.metadata is not null
    limit 1000
),

final as (
    select distinct unnest(json_keys(metadata::json)) as field
    from some_outputs
    order by field
    limit 100
)

select * from final
