-- example_pairs: one row per output_id of the run $run_id that is paired with partner_id, an output of the run
-- $baseline_run_id, as sql/queries/comparing/compared_outputs.sql pairs them. $sides: the pairs of models. change: its
-- score minus the partner's, null where one is unscored. is_b: false for outputs of side A, which have rows where both
-- sides are of one run.
with beside as (
    select unnest(
        $sides::struct(pair integer, side varchar, model varchar, checkpoint varchar)[], recursive := true
    )
),

sides as (
    select beside.pair, beside.side, scores.output_id, scores.case_id, scores.sample_index, scores.score
    from output_scores as scores
    inner join beside
        on scores.run_id = if(beside.side = 'b', $run_id, $baseline_run_id)
        and scores.model = beside.model
        and scores.checkpoint is not distinct from beside.checkpoint
    where scores.run_id in ($run_id, $baseline_run_id)
),

-- An output in both runs is paired with itself, even if others have its case and sample_index.
twins as (select *, if(count(*) over (partition by pair, output_id) = 2, output_id, '') as twin_id from sides),

places as (
    select
        max(output_id) filter (side = 'a') as output_a,
        max(output_id) filter (side = 'b') as output_b,
        max(score) filter (side = 'b') - max(score) filter (side = 'a') as change,
    from twins
    group by pair, case_id, sample_index, twin_id
    having count(*) filter (side = 'a') = 1 and count(*) filter (side = 'b') = 1
),

final as (
    select output_b as output_id, output_a as partner_id, change, true as is_b from places
    union all
    select output_a, output_b, -change, false from places where $run_id = $baseline_run_id
)

select * from final
