"""What a terminal shows and asks, apart from what commands do."""
