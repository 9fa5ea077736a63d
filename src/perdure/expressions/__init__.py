"""What definitions compute while a run runs: templates in configs, and conditions. It imports nothing heavy by
itself."""
