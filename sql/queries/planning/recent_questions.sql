-- recent_questions: one row per question (run_id, output_id, criterion_id, request_key) among the latest $most_count
-- replies of the judge $judge, with the tokens of all its replies: a repeated request after a useless reply is paid
-- again. is_first: the first question about its output.
with judged as (from judgments union all by name from no_judgments),

replies as (
    select
        run_id,
        output_id,
        criterion_id,
        request_key,
        service_tier,
        asked_at,
        prompt_bytes,
        prompt_tokens,
        cached_tokens,
        completion_tokens,
    from judged
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
        sum(completion_tokens)::double as completion_tokens,
        row_number() over (partition by run_id, output_id order by min(asked_at), request_key) = 1 as is_first,
    from replies
    group by run_id, output_id, criterion_id, request_key
)

select * from final
