-- stop_pairs: one row per pair of compared_pairs with both scores (0..1). position: of its case, or cluster, in
-- the order in which they are judged, from 0. $order: files with case_id, position.
with cases as (select distinct place, case_id from compared_outputs),

final as (
    select orders.position, pairs.score_b - pairs.score_a as difference
    from compared_pairs as pairs
    inner join cases on pairs.place = cases.place
    inner join read_parquet($order) as orders on cases.case_id = orders.case_id
    where pairs.is_pair and pairs.score_a is not null and pairs.score_b is not null
    order by orders.position, pairs.place
)

select * from final
