"""What benchmarks found, for people.

Always true here: a bar that is not met is shown as such.

    report  a table, JSON, a plot, and the bars
    page    `python -m benchmarks.report.page`: docs/performance.md from the results
"""
