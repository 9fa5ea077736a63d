"""Other people's agents on Perdure. Each module needs an extra of its own, and nothing of Perdure imports one."""
