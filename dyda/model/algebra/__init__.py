"""Views as an immutable algebra tree.

Always true here: a node knows its schema and refuses nonsense when it is built; a tree is never changed, only rebuilt.

    nodes         the operators, and a whole view definition
    expressions   expressions that are put together from others
    column_facts  what is known of each column that a node delivers
    renaming      a tree under other aliases, a query under other column names
"""
