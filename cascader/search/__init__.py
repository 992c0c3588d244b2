"""The search: candidates with addresses and copies, and the local moves that improve them."""
