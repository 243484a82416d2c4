-- int_scores_unioned: one row per scope (category or run), scope_id, output_number with a criterion in the scope. score
-- and is_passed are null where missing scores leave them open. least_score is the lowest possible score, below 0 only
-- through negative weights. is_gate_failed is of a run's outputs only, null where gates are unknown or there are none.
with categories as (select * from int_categories_scored),

outputs as (select * from int_outputs_scored),

final as (
    select
        'category' as scope, category as scope_id, output_number, group_number, score, least_score,
        is_met as is_passed, null::boolean as is_gate_failed,
    from categories
    union all
    select
        'run' as scope, '' as scope_id, output_number, group_number, score, least_score, is_passed,
        case
            when failed_gates is not null then true
            when gate_count > 0 and unscored_gate_count = 0 then false
        end as is_gate_failed,
    from outputs
)

select * from final
