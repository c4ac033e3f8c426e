"""One module per step of the catalog, in order."""
