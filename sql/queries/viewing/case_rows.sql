-- case_rows: one row per case_id of outputs, those that pass, the worst first, or by id where $is_by_case, $limit
-- rows from $offset on. worst: the lowest value of its outputs, null first; outputs: they, at most 200, by model and
-- sample. total_count: of all cases.
with outputs as materialized (from {outputs}),

cases as (
    select case_id, min(value) as worst, bool_or(value is null) as has_gap
    from outputs
    group by case_id
),

page as (
    select
        case_id,
        worst,
        count(*) over () as total_count,
        row_number() over (
            order by
                if($is_by_case, null, worst) nulls first,
                if($is_by_case, null, has_gap) desc nulls first,
                case_id
        ) as place,
    from cases
    qualify place > $offset and place <= $offset + $limit
),

final as (
    select
        page.case_id,
        page.worst,
        page.total_count,
        list(
            struct_pack(output_id, model, checkpoint, sample_index, score, "value", level_id, is_failed, "before")
            order by model, checkpoint, sample_index, output_id
        )[:200] as outputs,
    from page
    inner join outputs on page.case_id = outputs.case_id
    group by page.case_id, page.worst, page.total_count, page.place
    order by page.place
)

select * from final
