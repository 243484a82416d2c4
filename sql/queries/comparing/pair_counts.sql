-- pair_counts: one row per criterion_id of compared_pairs, in order: how many outputs are paired, and how many are not
-- and why.
with final as (
    select
        criterion_id,
        count(*) filter (is_pair) as pair_count,
        coalesce(sum(output_count) filter (not is_pair and not is_ambiguous), 0)::bigint as unpaired_count,
        count(*) filter (has_partner and not is_pair) as held_otherwise_count,
        coalesce(sum(output_count) filter (is_ambiguous), 0)::bigint as ambiguous_count,
        count(*) filter (is_pair and (score_a is null or score_b is null)) as unscored_count,
    from compared_pairs
    group by criterion_id
    order by criterion_id
)

select * from final
