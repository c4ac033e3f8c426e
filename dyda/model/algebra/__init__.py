"""Views as an immutable algebra tree.

Always true here: a node knows its schema; a tree is never changed, only rebuilt.

    nodes         the operators, and a whole view definition
    expressions   expressions composed of others
    column_facts  what is known about each column that a node delivers
    dependencies  which attributes of a node's rows decide which others
    derived_keys  what is unique in a view's rows, from the keys of its relations
    renaming      a tree under other aliases
"""
