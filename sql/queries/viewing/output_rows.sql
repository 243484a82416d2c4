-- output_rows: one row per output_id that passes, the lowest value first, or by case where $is_by_case, $limit rows
-- from $offset on. total_count: of all outputs.
with outputs as (from {outputs}),

final as (
    select *, count(*) over () as total_count
    from outputs
    order by if($is_by_case, null, "value") nulls first, case_id, model, checkpoint, sample_index, output_id
    limit $limit offset $offset
)

select * from final
