"""Templates, conditions and the segments between them."""
