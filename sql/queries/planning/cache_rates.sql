-- cache_rates: one row: the share (0..1) of prompt tokens that the endpoint's cache served, in the first question about
-- an output and in later ones; and the usual service tier.
with final as (
    select
        coalesce(sum(cached_tokens) filter (is_first) / sum(prompt_tokens) filter (is_first), 0.0) as first_rate,
        coalesce(
            sum(cached_tokens) filter (not is_first) / sum(prompt_tokens) filter (not is_first), 0.0
        ) as later_rate,
        mode(service_tier) filter (service_tier not in ('batch', 'flex')) as service_tier,
    from recent_questions
)

select * from final
