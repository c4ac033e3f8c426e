"""What things are: relations and types, views as algebra, update messages, signed bags, positions.

Always true here: values are immutable, nothing talks to a database or to Spark, and no other package of ours is
imported. Papers: 003 for the messages and counts, 000 for positions, 002 for the algebra as a chain of constructs.
"""
