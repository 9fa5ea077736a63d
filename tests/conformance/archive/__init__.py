"""What every archive must do, run against each adapter."""
