"""How good the policy is: elastiq against the rules of others, on one simulated world. See docs/policy.md."""
