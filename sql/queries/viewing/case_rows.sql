-- case_rows: one row per case_id of the outputs that pass, the worst first, or by id where $is_by_case, $limit rows
-- from $offset on. worst: the lowest value of its outputs, null first; outputs: they, at most 200, by model and sample.
-- total_count: of all cases.
with outputs as (from {outputs}),

grouped as (
    select
        case_id,
        min(value) as worst,
        bool_or(value is null) as has_gap,
        list(
            struct_pack(output_id, model, checkpoint, sample_index, score, "value", level_id, is_failed, baseline_score)
            order by model, checkpoint, sample_index, output_id
        )[:200] as outputs,
    from outputs
    group by case_id
),

final as (
    select case_id, worst, outputs, count(*) over () as total_count
    from grouped
    order by if($is_by_case, null, worst) nulls first, not has_gap, case_id
    limit $limit offset $offset
)

select * from final
