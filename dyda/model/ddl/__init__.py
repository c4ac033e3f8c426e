"""PostgreSQL's DDL as a source team writes it, told in the steps that a source's log tells.

Always true here: nothing is executed, and what cannot be read exactly is refused by name.

    statements  what a DDL text does, statement by statement
    words       the words of a DDL text
    types       types as they are written, called what PostgreSQL's format_type calls them
    schemas     tables as they would be after some schema changes
"""
