"""Integrations: pipelines as models of other libraries. Each module needs its library."""
