-- prompt_tokens: one row: of recent_questions whose prompt's bytes are known the count, tokens per byte, mean bytes,
-- and the standard deviation of the tokens from what the bytes predict; none where there is no such question.
with known as (from recent_questions where prompt_bytes > 0),

ratio as (
    select sum(prompt_tokens) / sum(prompt_bytes) as tokens_per_byte, avg(prompt_bytes) as mean_bytes
    from known
),

final as (
    select
        count(*) as question_count,
        any_value(tokens_per_byte) as tokens_per_byte,
        any_value(mean_bytes) as mean_bytes,
        coalesce(stddev_samp(prompt_tokens - tokens_per_byte * prompt_bytes), 0.0) as sd,
    from known
    cross join ratio
    having count(*) > 0
)

select * from final
