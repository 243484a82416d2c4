-- differing: one row per distinct row of a mart with different counts in its published file $file and in the rebuilt
-- mart: balance is the difference. mart: the rebuilt relation; names: its columns; published, rebuilt: the same columns
-- in the form for the comparison.
with sides as (
    select {published}, 1 as side
    from read_parquet($file)
    union all
    select {rebuilt}, -1 as side
    from {mart}
),

final as (
    select {names}, sum(side) as balance
    from sides
    group by {names}
    having sum(side) <> 0
)

select * from final
