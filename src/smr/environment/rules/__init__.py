"""Rules: small pure functions from facts to findings."""
