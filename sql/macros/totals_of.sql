-- totals_of(weight, is_weighted, is_gate, threshold): the sums of weights and the counts of a set of criteria, as
-- one struct; 0 for an empty set.
create or replace temp macro totals_of(weight, is_weighted, is_gate, threshold) as (
    struct_pack(
        positive_weight := coalesce(exact_sum(greatest(weight, 0.0)), 0.0),
        negative_weight := coalesce(exact_sum(least(weight, 0.0)), 0.0),
        positive_count := count(*) filter (weight > 0),
        weighted_count := count(*) filter (is_weighted),
        gate_count := count(*) filter (is_gate),
        threshold_count := count(*) filter (is_weighted and threshold is not null)
    )
);
