-- stop_pairs: one row per pair of compared_pairs with both scores (0..1); where cases have unlike numbers of pairs and
-- $weights is cases, one row per case, of the mean difference of its pairs. position: of its case, or cluster, in the
-- order in which they are judged, from 0. $order: files with case_id, position.
with cases as (select distinct place, case_id from compared_outputs),

uneven as (from {comparing/uneven_pairs}),

paired as (
    select
        orders.position,
        cases.case_id,
        pairs.place,
        pairs.score_b - pairs.score_a as difference,
        $weights = 'cases' and exists (select 1 from uneven) as is_counted_once,
    from compared_pairs as pairs
    inner join cases on pairs.place = cases.place
    inner join read_parquet($order) as orders on cases.case_id = orders.case_id
    where pairs.is_pair and pairs.score_a is not null and pairs.score_b is not null
),

final as (
    select position, avg(difference) as difference
    from paired
    group by position, case_id, if(is_counted_once, -1, place)
    order by position, min(place)
)

select * from final
