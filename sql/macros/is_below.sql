-- is_below(score, mark): does the score miss the mark by more than a float sum can be off (1e-9)? Null where either is.
create or replace macro is_below(score, mark) as (
    score < mark - 1e-9
)
