-- differing: one row per distinct row of a mart that is not as often in its published file $file as it is rebuilt:
-- balance is how much more often. mart: the rebuilt relation; names: its columns; published, rebuilt: the same columns
-- as they are compared.
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
