-- stored_output: one row: the output with the id `?`.
with final as (
    select * from outputs where output_id = ? limit 1
)

select * from final
