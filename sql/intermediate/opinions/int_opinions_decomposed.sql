-- int_opinions_decomposed: one row per model, checkpoint, criterion_id with n outputs that have several opinions.
-- One-way random effects by the method of moments: judge_variance is the mean square within outputs; output_variance is
-- the excess of the mean square between outputs over it, divided by the usual opinion count of an output, null where n
-- is under 2.
with opinions as (select * from int_opinions_numbered where not is_swapped),

several as (
    select
        model,
        checkpoint,
        criterion_id,
        output_number,
        count(*) as opinion_count,
        exact_mean(score) as mean,
        exact_sd(score) ** 2 * (count(*) - 1) as within_squares,
    from opinions
    group by model, checkpoint, criterion_id, output_number
    having count(*) > 1
),

centred as (
    select
        *,
        sum((opinion_count * mean * 1e15)::hugeint) over mates / 1e15 / sum(opinion_count) over mates as grand_mean,
    from several
    window mates as (partition by model, checkpoint, criterion_id)
),

squares as (
    select
        model,
        checkpoint,
        criterion_id,
        count(*) as n,
        sum(opinion_count)::bigint as opinion_count,
        exact_sum(within_squares) / (sum(opinion_count) - n) as within_square,
        exact_sum(opinion_count * (mean - grand_mean) ** 2) / nullif(n - 1, 0) as between_square,
        (sum(opinion_count) - sum(opinion_count ** 2) / sum(opinion_count)) / nullif(n - 1, 0) as usual_count,
    from centred
    group by model, checkpoint, criterion_id
),

final as (
    select
        model,
        checkpoint,
        criterion_id,
        n,
        opinion_count,
        case when n > 1 then greatest((between_square - within_square) / usual_count, 0.0) end as output_variance,
        within_square as judge_variance,
    from squares
)

select * from final
