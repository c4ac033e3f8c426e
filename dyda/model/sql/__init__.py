"""Spark SQL as views are written: from text to tree, and from tree to text.

Always true here: a text is either read exactly or refused with the construct, its place and what to write instead; the
text that `render` writes is parsed back to an equivalent tree.

    text               the words of a view file with their places, and its comments
    outline            which words are select items, relations, conditions, groups and subqueries
    outline_reader     reads that outline
    builder            from the outline to the tree: FROM, WHERE, select list, DISTINCT, set operations
    grouping           GROUP BY and aggregates
    subqueries         subqueries inside expressions, as joins
    expressions        which columns an expression reads, and its text with each of them qualified
    scope              which column a written name means
    aliases            aliases that are distinct in a whole tree
    functions          Spark's functions that need a rule of their own
    types              types as they are written in a view
    refusals           what a view cannot have
    postgresql_syntax  what PostgreSQL writes and Spark SQL does not
    positions          the line of a text that an error of Spark is about
    parse              from a view file to its definition
    render             a tree as text, preferences included
"""
