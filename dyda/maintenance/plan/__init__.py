"""Planning: what a unit makes of relations, views and knowledge.

Always true here: a plan is a function of what the round knows, and making it changes nothing.

    unit_plan        the plan of a unit, as data
    planner          from what a round knows to the plan of a unit
    builds           views that are built whole
    planning         one plan in the making: what it learns of relations, and how rows get to another definition
    positions        where a unit takes each view
    emptied          views that become empty with a relation
    stored_state     whether what operators keep can follow a new definition
    analysis         what only Spark can say of a definition
    relations_after  what relations are once a unit is processed
    knowledge_after  the knowledge follows the schemas
    stay             what views that wait go on knowing of relations that others see change
    left_behind      views whose texts follow a unit and whose rows do not
    version_details  what a view's history says of a version
    impact           a plan view by view: of some DDL, of pending messages, of the next unit
"""
