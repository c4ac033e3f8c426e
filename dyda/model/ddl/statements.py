"""PostgreSQL's DDL as a source team writes it, read by PostgreSQL's own grammar; nothing is executed.

    text ─ postgast (libpg_query) ─ one statement after the other ─▶ Schemas: the tables as they would be

Every statement is read exactly, or cannot change a captured table's columns, or is refused with its line and the
reason. A refused statement may well be harmless, but only the source knows: an answer that is nearly right is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import postgast
from postgast import pg_query_pb2 as pg

from dyda.errors import ConfigurationError
from dyda.model.ddl.schemas import Schemas
from dyda.model.ddl.tables import alter_table, key_of, read_column
from dyda.model.ddl.text import DdlText, UnreadableDdl
from dyda.model.ddl.words import LISTS, OWN_TRIGGERS, WORDS, Unreadable, functions, text_of
from dyda.model.relation import Column, RelationName
from dyda.model.schema_change import Harmless

__all__ = ["UnreadableDdl", "apply_ddl"]

Named = Callable[[tuple[str, ...]], RelationName]
"""The table that the parts of a written name mean."""

LIKE_GENERATED, LIKE_INDEXES = 1 << 4, 1 << 6
"""Bits of a LIKE clause's options."""


def apply_ddl(text: str, schemas: Schemas, named: Named, file: str = "") -> int:
    """Apply every statement of the text to `schemas` and return their number. Errors name `file` and the line."""
    written = DdlText(text, file)
    session = _Session(schemas, named)
    statements = written.statements()
    for statement in statements:
        with written.place_of(statement):
            session.apply(statement.stmt)
    return len(statements)


class _Session:
    """Applies the statements one after the other, as a session at the source would."""

    def __init__(self, schemas: Schemas, named: Named) -> None:
        self.schemas = schemas
        self.named = named
        self.search_path: list[str] | None = None
        self.search_path_after_commit: list[str] | None = None

    def apply(self, node: Any) -> None:
        kind = str(node.WhichOneof("node")).removesuffix("_stmt")
        match kind:
            case "alter_table":
                self.alter_table(node.alter_table_stmt)
            case "rename":
                self.rename(node.rename_stmt)
            case "alter_object_schema":
                self.set_schema(node.alter_object_schema_stmt)
            case "drop":
                self.drop(node.drop_stmt)
            case "create":
                self.create_table(node.create_stmt)
            case "create_foreign_table":
                foreign = node.create_foreign_table_stmt.base_stmt
                self.create(foreign.relation, foreign.if_not_exists)
            case "create_table_as" if node.create_table_as_stmt.objtype == pg.OBJECT_TABLE:
                self.create(node.create_table_as_stmt.into.rel, node.create_table_as_stmt.if_not_exists)
            case "truncate":
                for relation in node.truncate_stmt.relations:
                    self.schemas.truncate(self.table(relation.range_var), whole=relation.range_var.inh)
            case "variable_set":
                self.set_variable(node.variable_set_stmt)
            case "select":
                self.select(node.select_stmt)
            case "insert" | "update" | "delete" | "merge":
                self.write_rows(node)
            case "copy" if node.copy_stmt.is_from:
                self.touch(node.copy_stmt.relation)
            case "copy" if node.copy_stmt.HasField("query"):
                self.apply(node.copy_stmt.query)
            case "explain" if any(option.def_elem.defname == "analyze" for option in node.explain_stmt.options):
                self.apply(node.explain_stmt.query)
            case "alter_enum" if node.alter_enum_stmt.old_val:
                raise Unreadable("only the source knows which columns hold the renamed value")
            case "create_schema" if node.create_schema_stmt.schema_elts:
                raise Unreadable("write the objects of the schema as separate statements")
            case "transaction":
                self.transaction(pg.TransactionStmtKind.Name(node.transaction_stmt.kind).removeprefix("TRANS_STMT_"))
            case _ if kind not in LISTS["harmless_statements"]:
                raise Unreadable(WORDS["refused_statements"].get(kind, "only the source knows what it does"))

    # --- names

    def table(self, written: Any, *, new: bool = False) -> RelationName:
        """The table that a RangeVar, or a name in a list, means."""
        if isinstance(written, pg.RangeVar):
            parts = tuple(part for part in (written.catalogname, written.schemaname, written.relname) if part)
        else:
            parts = tuple(text_of(written.list.items))
        name = self.named(parts)
        if len(parts) > 1:
            return name
        temporary = replace(name, schema="pg_temp")  # it hides a table of the same name
        if written.relpersistence == "t" if new else self.schemas.has(temporary):
            return temporary
        if self.search_path is None:
            return name
        found = replace(name, schema=(*self.search_path, "")[0])
        if not found.schema or not (new or len(self.search_path) == 1 or self.schemas.has(found)):
            path = ", ".join(self.search_path) or "empty"
            raise Unreadable(f"the search_path is {path}, so only the source knows which table {name.table} is")
        return found

    def existing(self, written: Any, if_exists: bool) -> RelationName | None:
        name = self.table(written)
        return None if if_exists and not self.schemas.has(name) else name

    def known(self, written: Any) -> RelationName | None:
        """The table if the catalog knows it, in statements that need not name its source."""
        try:
            return self.existing(written, if_exists=True)
        except (ConfigurationError, Unreadable):
            return None

    # --- tables

    def alter_table(self, statement: Any) -> None:
        match _kind(statement.objtype):
            case "TABLE" | "FOREIGN_TABLE":
                table = self.existing(statement.relation, statement.missing_ok)
                if table is not None:
                    alter_table(table, statement.cmds, self.schemas)
            case "TYPE":
                raise Unreadable("only the source knows which columns have this type")

    def rename(self, statement: Any) -> None:
        kind = _kind(statement.rename_type)
        if kind in LISTS["unknown_members"] or (kind == "TRIGGER" and statement.subname.startswith(OWN_TRIGGERS)):
            raise Unreadable("only the source knows what depends on this name")
        of_table = _kind(statement.relation_type if kind == "COLUMN" else statement.rename_type)
        if of_table in ("TABLE", "FOREIGN_TABLE", "TABCONSTRAINT"):
            table = self.existing(statement.relation, statement.missing_ok)
        else:  # ALTER INDEX and ALTER VIEW take a table's name, too
            table = self.known(statement.relation) if kind in ("COLUMN", "INDEX") else None
        if table is None:
            return
        if kind == "COLUMN":
            self.schemas.rename_columns(table, {statement.subname: statement.newname})
        elif kind == "TABCONSTRAINT":
            self.schemas.note(table, Harmless("renames a constraint"))
        else:
            self.schemas.rename(table, replace(table, table=statement.newname))

    def set_schema(self, statement: Any) -> None:
        kind = _kind(statement.object_type)
        if kind in LISTS["unknown_members"]:
            raise Unreadable("only the source knows which columns it concerns")
        table = self.existing(statement.relation, statement.missing_ok) if kind.endswith("TABLE") else None
        if table is not None:
            self.schemas.rename(table, replace(table, schema=statement.newschema))

    def drop(self, statement: Any) -> None:
        kind = _kind(statement.remove_type)
        if kind in ("TABLE", "FOREIGN_TABLE"):
            for written in statement.objects:
                table = self.existing(written, statement.missing_ok)
                if table is not None:
                    self.schemas.drop(table)
        elif kind in ("EXTENSION", "EVENT_TRIGGER") or (
            kind in LISTS["cascading"] and statement.behavior == pg.DROP_CASCADE
        ):
            raise Unreadable("only the source knows what else it drops")
        elif kind == "TRIGGER" and text_of(statement.objects[0].list.items)[-1].startswith(OWN_TRIGGERS):
            raise Unreadable("it is one of DyDa's own triggers")

    def create_table(self, statement: Any) -> None:
        known = not (statement.inh_relations or statement.HasField("of_typename"))
        if statement.HasField("partbound"):
            parent = self.known(statement.inh_relations[0].range_var)
            if parent is not None:
                self.schemas.note(parent, Harmless(f"gets the empty part {statement.relation.relname}"))
        columns: list[Column] = []
        keys: list[tuple[str, ...]] = []
        filled: set[str] = set()
        for element in statement.table_elts:
            if element.HasField("column_def"):
                defined = read_column(element.column_def)
                columns.append(defined.column)
                keys += [(defined.column.name,)] if defined.key else []
            elif element.HasField("constraint"):
                keys += key_of(element.constraint)
                if element.constraint.contype in (pg.CONSTR_PRIMARY, pg.CONSTR_NOTNULL):
                    filled.update(text_of(element.constraint.keys))
            else:
                options = element.table_like_clause.options
                like = self.schemas.relation(self.table(element.table_like_clause.relation))
                known = known and like is not None
                if like is not None:
                    columns += [c if options & LIKE_GENERATED else replace(c, generated="") for c in like.columns]
                    keys += like.keys if options & LIKE_INDEXES else ()
        known = known and statement.relation.relpersistence != "u"  # which cannot be captured
        columns = [replace(c, number=n, not_null=c.not_null or c.name in filled) for n, c in enumerate(columns, 1)]
        self.create(statement.relation, statement.if_not_exists, columns if known else None, keys)

    def create(
        self,
        relation: Any,
        if_not_exists: bool,
        columns: list[Column] | None = None,
        keys: Sequence[tuple[str, ...]] = (),
    ) -> None:
        table = self.table(relation, new=True)
        if not (if_not_exists and self.schemas.has(table)):
            self.schemas.create(table, columns, keys)

    # --- the session's settings, and rows

    def set_variable(self, statement: Any) -> None:
        values = [argument.a_const.sval.sval for argument in statement.args]
        if statement.name == "search_path" or statement.kind == pg.VAR_RESET_ALL:
            self.set_search_path(values if statement.kind == pg.VAR_SET_VALUE else None, statement.is_local)
        elif statement.name == "standard_conforming_strings" and values not in ([], ["on"], ["true"]):
            raise Unreadable("it changes how the text after it is parsed")

    def select(self, statement: Any) -> None:
        unknown = [name for name in functions(statement) if name not in LISTS["quiet_functions"]]
        if unknown:
            raise Unreadable(f"only the source knows what the function {unknown[0]} does")
        for _, node in postgast.walk(statement):
            if isinstance(node, pg.FuncCall) and text_of(node.funcname)[-1] == "set_config":
                self.set_config([argument.a_const for argument in node.args])
        if statement.HasField("into_clause"):
            self.create(statement.into_clause.rel, False)
        self.write_rows(statement)

    def set_config(self, arguments: Sequence[Any]) -> None:
        name, value, *_ = (*(argument.sval.sval for argument in arguments), "", "")
        if name.lower() in ("search_path", ""):  # '': a computed name, which may be any
            parts = [part.strip() for part in value.split(",")]
            schemas = [part.strip('"') if part.startswith('"') else part.lower() for part in parts]
            self.set_search_path(schemas, local=arguments[-1].boolval.boolval if arguments else False)

    def set_search_path(self, schemas: Sequence[str] | None, local: bool) -> None:
        """`schemas` None: the source's own setting. Schemas without captured tables are left out."""
        others = ("", "$user", "pg_catalog", "pg_temp")
        self.search_path = None if schemas is None else [name for name in schemas if name not in others]
        if not local:
            self.search_path_after_commit = self.search_path

    def transaction(self, kind: str) -> None:
        if kind not in ("BEGIN", "START", "COMMIT", "SAVEPOINT", "RELEASE"):
            raise Unreadable("it undoes earlier statements or hands the transaction to another session")
        if kind == "COMMIT":
            self.search_path = self.search_path_after_commit

    def write_rows(self, statement: Any) -> None:
        """Changed rows are captured as always; only their tables are noted. WITH may hold such statements, too."""
        for _, node in postgast.walk(statement):
            if isinstance(node, pg.InsertStmt | pg.UpdateStmt | pg.DeleteStmt | pg.MergeStmt):
                self.touch(node.relation)

    def touch(self, relation: Any) -> None:
        table = self.known(relation)
        if table is not None:
            self.schemas.write_rows(table)


def _kind(object_type: Any) -> str:
    return str(pg.ObjectType.Name(object_type)).removeprefix("OBJECT_")
