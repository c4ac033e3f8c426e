"""Measuring DyDa beside what people do today: `python -m benchmarks NAME … --profile tiny|quick|full`.

Always true here: contenders take turns in one run, every answer is checked, and what is told is a ratio.

    scenarios/  what is measured
    harness/    servers, load, contenders, timing, checking
    report/     tables, JSON, plots, bars, and docs/performance.md
"""
