-- completion_tokens: one row per criterion_id of recent_questions, and one with a null id for all but $feedback and
-- $proposal: count, mean, standard deviation and the 10% and 90% quantiles of a question's completion tokens; is_like:
-- at the judge's own effort. Questions at another effort count only where there is none at this one.
with questions as (
    from recent_questions where is_like or not exists (from recent_questions where is_like)
),

final as (
    select
        criterion_id,
        count(*) as question_count,
        avg(completion_tokens) as mean,
        coalesce(stddev_samp(completion_tokens), 0.0) as sd,
        quantile_cont(completion_tokens, 0.1) as low,
        quantile_cont(completion_tokens, 0.9) as high,
        bool_or(is_like) as is_like,
    from questions
    group by criterion_id
    union all
    select
        null as criterion_id,
        count(*) as question_count,
        avg(completion_tokens) as mean,
        coalesce(stddev_samp(completion_tokens), 0.0) as sd,
        quantile_cont(completion_tokens, 0.1) as low,
        quantile_cont(completion_tokens, 0.9) as high,
        bool_or(is_like) as is_like,
    from questions
    where criterion_id not in ($feedback, $proposal)
    having count(*) > 0
)

select * from final
