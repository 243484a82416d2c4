-- stop_pairs: one row per pair of compared_pairs with a score of the baseline (0..1), and one of the run or its bounds;
-- where cases have unlike numbers of pairs and $weights is cases, one row per case, of the means of its pairs.
-- difference: null where the run lacks the score; least, most: its bounds. position: of its case, or cluster, in the
-- order in which they are judged, from 0. $order: files with case_id, position.
with cases as (select distinct place, case_id from compared_outputs),

ends as (select place, score_low, score_high from compared_outputs where side = 'b' and has_partner),

uneven as (from {comparing/uneven_pairs}),

paired as (
    select
        orders.position,
        cases.case_id,
        pairs.place,
        pairs.score_b - pairs.score_a as difference,
        coalesce(difference, ends.score_low - pairs.score_a) as least,
        coalesce(difference, ends.score_high - pairs.score_a) as most,
        $weights = 'cases' and exists (select 1 from uneven) as is_counted_once,
    from compared_pairs as pairs
    inner join cases on pairs.place = cases.place
    inner join read_parquet($order) as orders on cases.case_id = orders.case_id
    left join ends on pairs.place = ends.place
    where pairs.is_pair and least is not null
),

final as (
    select position, avg(difference) as difference, avg(least) as least, avg(most) as most,
    from paired
    group by position, case_id, if(is_counted_once, -1, place)
    order by position, min(place)
)

select * from final
