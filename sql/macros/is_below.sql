-- is_below(score, mark): whether the score is below the mark by more than the error of a float sum (1e-9). Null where
-- either is.
create or replace temp macro is_below(score, mark) as (
    score < mark - 1e-9
)
