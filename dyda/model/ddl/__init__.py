"""PostgreSQL's DDL as a source team writes it, in the same steps as a source's log.

Always true here: nothing is executed, and what cannot be read exactly is refused with its line and the reason.

    statements  what a DDL text does, statement by statement
    text        the statements of a text, and errors with their line
    tables      columns and constraints as they are defined, and the actions of ALTER TABLE
    types       types as written, under the names of PostgreSQL's format_type
    words       what is known about PostgreSQL's words: which statements are harmless, which are refused and why
    schemas     tables as they would be after some schema changes
"""
