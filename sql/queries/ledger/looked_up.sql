-- looked_up: one row per run_id, output_id, criterion_id of a verdict, or of each of its opinions, of the run $run_id,
-- or of all runs if it is null, with the key of its request. A preference comes from two requests, one for each order:
-- second_key is that of the second, by `preference_keys`. Without one (its judge or an answer is unknown, or has
-- images) a preference can't be compared, and is left out.
with compared as (
    select run_id, output_id, criterion_id, level_id, request_key
    from verdicts
    where
        status = 'scored'
        and (method = 'judge' or (method = 'preference' and request_key is not null))
        and run_id not in (select run_id from opinions)
    union all
    select run_id, output_id, criterion_id, level_id, request_key from opinions where status = 'scored'
),

final as (
    select compared.*, keys.second_key
    from compared
    left join preference_keys as keys on compared.run_id = keys.run_id and compared.request_key = keys.first_key
    anti join judged_preferences as preferences
        on keys.second_key is null
        and compared.run_id = preferences.run_id
        and compared.output_id = preferences.output_id
        and compared.criterion_id = preferences.criterion_id
    where $run_id is null or compared.run_id = $run_id
)

select * from final
