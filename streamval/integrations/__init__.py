"""Good neighbours: pipelines as the models of other libraries. Each module needs its library."""
