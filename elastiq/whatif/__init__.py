"""What if: a trace played through the production loop on a simulated cluster, and what it would have cost."""
