-- wrong_verdicts: one row per row of `looked_up` that has another level (found) than the earliest judgment of its
-- request (expected), or one `passed_on` to its run, in order. A verdict of several opinions need not have the level of
-- any single judgment, so each opinion is compared with the ledger. A preference has the level that both orders have,
-- else it is a tie.
with earliest as (
    select
        request_key,
        arg_min(level_id, (asked_at, judgment_id)) as level_id,
        arg_min(judgment_id, (asked_at, judgment_id)) as judgment_id,
    from judgments
    where status = 'scored'
    group by request_key
),

-- Levels that a request may have given to a run, the earliest first.
answered as (
    select
        looked_up.*,
        first.judgment_id,
        list_prepend(first.level_id, coalesce(own_first.level_ids, [])) as first_levels,
        list_prepend(second.level_id, coalesce(own_second.level_ids, [])) as second_levels,
    from looked_up
    left join earliest as first on looked_up.request_key = first.request_key
    left join passed_on as own_first
        on looked_up.request_key = own_first.request_key
        and looked_up.run_id = own_first.run_id
    left join earliest as second on looked_up.second_key = second.request_key
    left join passed_on as own_second
        on looked_up.second_key = own_second.request_key
        and looked_up.run_id = own_second.run_id
),

possible as (
    select
        *,
        case
            when second_key is null then first_levels
            else flatten(list_transform(first_levels, lambda one: list_transform(second_levels, lambda other:
                case when one = other then one when one is not null and other is not null then 'same' end
            )))
        end as levels,
    from answered
),

final as (
    select
        run_id,
        output_id,
        criterion_id,
        level_id as found,
        levels[1] as expected,
        judgment_id,
        request_key,
    from possible
    where level_id is distinct from levels[1] and not coalesce(list_contains(levels, level_id), false)
    order by run_id, output_id, criterion_id
)

select * from final
