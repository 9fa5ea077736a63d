"""The stage: a workflow of a user in a simulated cluster, with stubs for its handlers and people who decide."""
