-- compared_pairs: one row per criterion_id, place of `scores` (side_verdicts and side_overall of both sides), and per
-- side where the criterion differs or the output has no partner. score_a and score_b are 0..1, null where unscored;
-- missing_a and missing_b: where a score is owed.
with final as (
    select
        criterion_id,
        place,
        case_number,
        has_partner,
        is_ambiguous,
        has_partner and count(*) = 2 as is_pair,
        count(*) as output_count,
        max(score) filter (side = 'a' and has_partner) as score_a,
        max(score) filter (side = 'b' and has_partner) as score_b,
        coalesce(bool_or(is_missing) filter (side = 'a'), false) as missing_a,
        coalesce(bool_or(is_missing) filter (side = 'b'), false) as missing_b,
        max(own_weight) as own_weight,
    from {scores}
    group by criterion_id, place, case_number, held_to, has_partner, is_ambiguous
)

select * from final
