"""What definitions compute while a run runs: templates in configs, and conditions. Imports nothing heavy by itself."""
