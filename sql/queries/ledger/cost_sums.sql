-- cost_sums: one row per criterion, judge, day or stage, as $part says, of cost_lines; one row in all if $part is null.
-- Costs are in US dollars, null where none is known.
with final as (
    select
        case $part
            when 'criterion' then criterion
            when 'judge' then judge
            when 'day' then day
            when 'stage' then stage
        end as part,
        count(judgment_count)::bigint as judgment_count,
        coalesce(sum(request_count), 0)::bigint as request_count,
        coalesce(sum(prompt_tokens), 0)::bigint as prompt_tokens,
        coalesce(sum(cached_tokens), 0)::bigint as cached_tokens,
        coalesce(sum(completion_tokens), 0)::bigint as completion_tokens,
        coalesce(sum(written_tokens), 0)::bigint as written_tokens,
        coalesce(sum(reasoning_tokens), 0)::bigint as reasoning_tokens,
        if(count(judgment_count) = 0, 0.0, sum(billed_usd)) as billed_usd,
        count(*) filter (judgment_count = 1 and billed_usd is null and not is_uncounted) as unpriced_count,
        count(*) filter (is_uncounted) as uncounted_count,
        coalesce(sum(replayed_count), 0)::bigint as replayed_count,
        if(count(replayed_count) = 0, 0.0, sum(saved_usd)) as saved_usd,
        coalesce(sum(replayed_count) filter (saved_usd is null), 0)::bigint as unpriced_replayed_count,
    from cost_lines
    group by part
    order by if($part = 'day', part, null), billed_usd desc nulls last, part
)

select * from final
