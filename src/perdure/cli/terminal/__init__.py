"""Output and questions on a terminal, apart from what commands do."""
