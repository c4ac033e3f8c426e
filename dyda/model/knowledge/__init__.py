"""What the sources mean to each other: the knowledge base of the EVE project (MISD).

Always true here: a constraint names relations by their full names.

    constraints  join, containment and function constraints, as plain data
    notation     names and conditions as knowledge.toml writes them
    file         knowledge.toml read into constraints, and written back
    document     the catalog's copy, read over the relations that the catalog knows
"""
