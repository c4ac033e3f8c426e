"""PostgreSQL's DDL as a source team writes it, told in the steps that a source's log tells.

Always true here: nothing is executed, and what cannot be read exactly is refused with its line and the reason.

    statements  what a DDL text does, statement by statement
    text        a text's statements, and errors that tell their place in it
    tables      columns and constraints as they are defined, and the actions of ALTER TABLE
    types       types as they are written, called what PostgreSQL's format_type calls them
    words       PostgreSQL's words by which DDL is judged: which statements are harmless, which are refused and why
    schemas     tables as they would be after some schema changes
"""
