"""What measuring needs.

Always true here: servers are our own, on this machine, and end with the run.

    servers            PostgreSQL servers, all of one build
    pgbench            pgbench as a load
    measuring          times that can be trusted on a noisy machine
    checking           extents beside what PostgreSQL computes
    commit_markers     transactions that can be recognised in the warehouse
    dyda_contender     DyDa as a contender
    baselines          refresh over postgres_fdw, recompute on Spark or in process
    handwritten_limit  the same view kept by hand in one database
"""
