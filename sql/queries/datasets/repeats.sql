-- repeats: one row per shard, id of an output that an earlier shard has too; shard: its position in the files $shards.
-- An id is read as a UUID: 16 bytes group in a third of the time and memory of 32 letters.
with stored as (select output_id::uuid as id, file_index as shard from read_parquet($shards)),

repeated as (select id, min(shard) as first_shard from stored group by id having count(*) > 1),

final as (
    select stored.shard, stored.id
    from stored
    inner join repeated on stored.id = repeated.id
    where stored.shard <> repeated.first_shard
)

select * from final
