-- compared_outputs: one row per side, output_id of the two groups compared: side a is the model $model_a with
-- checkpoint $checkpoint_a in the run $run_a; side b is $model_b, $checkpoint_b, $run_b. An output is paired with
-- itself; any other with the output of the same case_id and sample_index, if each side has exactly one. place and
-- case_number count from 0: outputs with one place are paired, cases of one cluster have one case_number. Scores are
-- 0..1.
with sides as (
    select 'a' as side, output_id, case_id, sample_index, cluster, score, score_low, score_high, uniform_score,
        is_passed, stratum, inclusion_rate,
    from output_scores
    where run_id = $run_a and model = $model_a and checkpoint is not distinct from $checkpoint_a
    union all
    select 'b' as side, output_id, case_id, sample_index, cluster, score, score_low, score_high, uniform_score,
        is_passed, stratum, inclusion_rate,
    from output_scores
    where run_id = $run_b and model = $model_b and checkpoint is not distinct from $checkpoint_b
),

twins as (select *, if(count(*) over (partition by output_id) = 2, output_id, '') as twin_id from sides),

-- bond: the cluster or case, as the macro cluster_of (a lake stores no macros).
counted as (
    select
        * exclude (twin_id, cluster),
        (dense_rank() over (order by case_id, sample_index, twin_id) - 1)::integer as place,
        max(coalesce('cluster ' || cluster, 'case ' || case_id)) over same_place as bond,
        count(*) filter (side = 'a') over same_place as count_a,
        count(*) filter (side = 'b') over same_place as count_b,
    from twins
    window same_place as (partition by case_id, sample_index, twin_id)
),

final as (
    select
        * exclude (bond, count_a, count_b),
        (dense_rank() over (order by bond) - 1)::integer as case_number,
        count_a = 1 and count_b = 1 as has_partner,
        count_a > 0 and count_b > 0 and not has_partner as is_ambiguous,
    from counted
)

select * from final
