-- completion_tokens: one row per criterion_id of recent_questions, and one with a null id for all but $feedback: count,
-- mean, standard deviation and the 10% and 90% quantiles of a question's completion tokens.
with final as (
    select
        criterion_id,
        count(*) as question_count,
        avg(completion_tokens) as mean,
        coalesce(stddev_samp(completion_tokens), 0.0) as sd,
        quantile_cont(completion_tokens, 0.1) as low,
        quantile_cont(completion_tokens, 0.9) as high,
    from recent_questions
    group by criterion_id
    union all
    select
        null as criterion_id,
        count(*) as question_count,
        avg(completion_tokens) as mean,
        coalesce(stddev_samp(completion_tokens), 0.0) as sd,
        quantile_cont(completion_tokens, 0.1) as low,
        quantile_cont(completion_tokens, 0.9) as high,
    from recent_questions
    where criterion_id <> $feedback
    having count(*) > 0
)

select * from final
