"""What a gateway costs: our own and its peers between a paced mock of an engine and a load generator."""
