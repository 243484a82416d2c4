-- example_picks: one row per output_id, kind of the run $run_id: at most $most_count of a kind, place counts from 1.
-- Models take turns among the worst and the best, gates among gate failures, reasons among the unscored, criteria among
-- the disputed. Reads example_pairs and example_disputes.
with scored as (
    select
        scores.*,
        concat(scores.model, chr(10), scores.checkpoint) as voice,
        ends.*,
    from output_scores as scores
    cross join (
        select min(score) as lowest, median(score) as middle, max(score) as highest
        from output_scores
        where run_id = $run_id
    ) as ends
    where scores.run_id = $run_id
),

gaps as (
    select output_id, min(concat(split_part(reason, ':', 1), chr(10), criterion_id)) as reason
    from verdicts
    where
        run_id = $run_id
        and score is null
        and not starts_with(coalesce(reason, ''), 'not_applicable: condition not met')
    group by output_id
),

kinds as (
    select 'fell' as kind, output_id, '' as turn_of, change as rank from example_pairs where is_b and change < -1e-9
    union all
    select 'rose', output_id, '', -change from example_pairs where is_b and change > 1e-9
    union all
    select 'gate', output_id, concat(failed_gates[1], chr(10), voice), score from scored where len(failed_gates) > 0
    union all
    select 'worst', output_id, voice, score from scored where score < highest and score <= middle
    union all
    select 'disputed', output_id, criterion_id, -spread from example_disputes
    union all
    select 'slice', output_id, '', min(-gain)
    from (select unnest(example_ids) as output_id, gain from weak_spots where run_id = $run_id and p_adjusted <= 0.05)
    group by output_id
    union all
    select 'unscored', scored.output_id, gaps.reason, -scored.unscored_count
    from scored
    left join gaps on scored.output_id = gaps.output_id
    where scored.unscored_count > 0
    union all
    select 'best', output_id, voice, -score from scored where score > lowest and (score > middle or score = highest)
),

-- Only the first of each turn: in a large run most outputs are among the worst or the best.
firsts as (
    select kind, turn_of, unnest(min({is_last: rank is null, rank: rank, output_id: output_id}, $most_count)) as first
    from kinds
    group by kind, turn_of
),

turns as (
    select
        kind,
        first,
        row_number() over (partition by kind, turn_of order by first) as turn,
    from firsts
),

final as (
    select
        kind,
        first.output_id,
        row_number() over (partition by kind order by turn, first) as place,
    from turns
    qualify place <= $most_count
)

select * from final
