"""What is measured. Each benchmark is a module with `run(profile) -> Report`; the others are parts of these.

Always true here: the profile `tiny` runs every benchmark to its last line and measures nothing.

    six_way_join   batches of changes over six relations on three servers (benchmark `six`)
    relations      its relations, its view, its batches
    sales          totals per customer over 1.8 million rows
    shop           its tables, its view, its batches
    messages       how many queries a change costs
    arrival_order  compensation by arrival order, as paper 003 prints it: what `messages` compares with
    growth         one batch while one thing around it grows
    chains         its relations in a chain
    tpch           the 22 queries of TPC-H as views of one project, beside PostgreSQL
    views          a handful of rows with one view and with dozens of every kind
    freshness      from a source's commit to a reader who sees it
    start          commands and daemons until they say or do something
    reading        views beside plain tables: queries, size, WAL
    lanes          freshness of the other views while a large one is rebuilt
    waiting        freshness of other views while a message waits for approval
    adaptation     each kind of adaptation beside building the view again
    capture        what capture costs a source
    altering       how long a schema change waits for our lookups
    planning       what planning takes
    draining       a queue at real sources, drained by real units
    dyno           what detection and broken queries cost
    strategies     pessimistic and optimistic detection side by side
    mixture        mixtures of data updates and schema changes
    dyno_figures   from what the strategies cost to Figures 7 to 11 of paper 001
"""
