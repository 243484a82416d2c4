-- int_opinions_flipped: one row per model, checkpoint, criterion_id with opinions. Rates are in 0..1: flip_rate over
-- pairs of replicates of one judge, swap_flip_rate over pairs of an opinion and its repeat with the levels in the other
-- order; null without such a pair.
with opinions as (select * from int_opinions_numbered where level_id is not null),

level_counts as (
    select model, checkpoint, criterion_id, output_number, judge, level_id, count(*) as level_count,
    from opinions
    where not is_swapped
    group by model, checkpoint, criterion_id, output_number, judge, level_id
),

replicates as (
    select
        model,
        checkpoint,
        criterion_id,
        sum(level_count) as replicate_count,
        sum(level_count * (level_count - 1) / 2) as equal_count,
    from level_counts
    group by model, checkpoint, criterion_id, output_number, judge
),

swaps as (
    select plain.model, plain.checkpoint, plain.criterion_id, plain.level_id <> swapped.level_id as is_flipped,
    from opinions as plain
    inner join opinions as swapped
        on plain.output_number = swapped.output_number
        and plain.criterion_id = swapped.criterion_id
        and plain.judge = swapped.judge
        and plain.replicate = swapped.replicate
    where not plain.is_swapped and swapped.is_swapped
),

measured as (
    select
        model, checkpoint, criterion_id, equal_count,
        replicate_count * (replicate_count - 1) / 2 as pair_count, null::boolean as is_flipped,
    from replicates
    union all by name
    select * from swaps
),

final as (
    select
        model,
        checkpoint,
        criterion_id,
        1 - sum(equal_count) / nullif(sum(pair_count), 0) as flip_rate,
        avg(is_flipped::integer) as swap_flip_rate,
    from measured
    group by model, checkpoint, criterion_id
)

select * from final
