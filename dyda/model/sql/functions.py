"""Spark's functions that need a rule of their own or that a view cannot use, by kind.

A test asks a live Spark for its functions and their classes and fails if one is missing here. Spark's analyser decides
about all others: whether they exist, and whether their arguments fit.
"""

from __future__ import annotations

from dyda.model.sql.text import SqlText, TokenType, names

__all__ = ["AGGREGATES", "CHANGING", "GENERATORS", "MAINTAINED", "WINDOWS", "is_aggregate"]


AGGREGATES = names(
    """
    any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate approx_top_k_combine
    array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg bool_and bool_or
    collect_list collect_set collect_union corr count count_if count_min_sketch covar_pop covar_samp every first
    first_value grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint
    kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kurtosis
    last last_value listagg max max_by mean measure median min min_by mode percentile percentile_approx
    percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy
    regr_syy schema_of_variant_agg skewness some std stddev stddev_pop stddev_samp string_agg sum
    theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum tuple_intersection_agg_double
    tuple_intersection_agg_integer tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_agg_double
    tuple_union_agg_integer var_pop var_samp variance vector_avg vector_sum
    """
)

MAINTAINED = {
    **{name: name for name in ("count", "sum", "avg", "min", "max")},
    **{name: name for name in ("stddev_samp", "stddev_pop", "var_samp", "var_pop", "bool_and", "bool_or")},
    "mean": "avg",
    "std": "stddev_samp",
    "stddev": "stddev_samp",
    "variance": "var_samp",
    "every": "bool_and",
    "any": "bool_or",
    "some": "bool_or",
    "count_if": "count",
}
"""The aggregates that a view can have, by what the algebra calls them."""

WINDOWS = names(
    """
    counter_diff cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number session_window window
    window_time
    """
)

GENERATORS = names(
    """
    collations explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer
    python_worker_logs range sql_keywords stack variant_explode variant_explode_outer
    """
)

CHANGING = names(
    """
    aes_encrypt curdate current_catalog current_database current_date current_path current_schema current_time
    current_timestamp current_timezone current_user input_file_block_length input_file_block_start input_file_name
    java_method localtime localtimestamp monotonically_increasing_id now rand randn random randstr reflect session_user
    shuffle spark_partition_id try_reflect uniform user uuid version
    """
)
"""Functions whose value depends on more than their arguments: time, chance, the session, the machine."""


def is_aggregate(text: SqlText, index: int) -> bool:
    """Whether the word is the name of an aggregate that is called. `LIKE ANY (…)` is none."""
    return (
        text.is_name(index)
        and text.kind(index + 1) is TokenType.L_PAREN
        and text.name(index).lower() in MAINTAINED
        and text.kind(index - 1) not in (TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE, TokenType.DOT)
    )
