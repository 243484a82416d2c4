-- stg_judgments: one row per judgment_id that this run paid for. cost_usd is null where the price is unknown; tokens
-- are null where the endpoint did not report them.
with judgments as (select * from source_judgments),

final as (
    select
        output_id,
        criterion_id,
        prompt_tokens,
        cached_tokens,
        completion_tokens,
        cost_usd,
        attempts,  -- requests sent for it; 0 where it was recorded
    from judgments
)

select * from final
