-- recent_questions: one row per question (run_id, output_id, criterion_id, request_key) among the latest $most_count
-- replies of the judge $judge, with the tokens of all its replies: a repeated request after a useless reply is paid
-- again. is_first: the first question about its output. is_like: asked at the effort $effort, as its run recorded it,
-- or at an unknown one. Where no question was, completion_tokens are without reasoning.
with judged as (from judgments union all by name from no_judgments),

members as (
    select run_id, unnest([settings -> '$.judge'] || (settings -> '$.judge.members[*]')) as member
    from runs
    where run_id in (select run_id from judged where judge = $judge)
),

efforts as (
    select run_id, any_value(concat_ws('/', member ->> 'reasoning_effort', member ->> 'thinking')) as effort
    from members
    where member ->> 'model' = $judge
    group by run_id
),

replies as (
    select
        judged.run_id,
        output_id,
        criterion_id,
        request_key,
        service_tier,
        asked_at,
        prompt_bytes,
        prompt_tokens,
        cached_tokens,
        completion_tokens,
        completion_tokens - coalesce(reasoning_tokens, 0) as written_tokens,
        coalesce(effort = $effort, true) as is_like,
    from judged
    left join efforts on judged.run_id = efforts.run_id
    where judge = $judge and (attempts > 0 or prompt_bytes is not null) and prompt_tokens > 0
    order by asked_at desc
    limit $most_count
),

final as (
    select
        criterion_id,
        any_value(service_tier) as service_tier,
        min(prompt_bytes) as prompt_bytes,
        sum(prompt_tokens)::double as prompt_tokens,
        sum(cached_tokens)::double as cached_tokens,
        if(bool_or(is_like), sum(completion_tokens), sum(written_tokens))::double as completion_tokens,
        bool_or(is_like) as is_like,
        row_number() over (partition by run_id, output_id order by min(asked_at), request_key) = 1 as is_first,
    from replies
    group by run_id, output_id, criterion_id, request_key
)

select * from final
