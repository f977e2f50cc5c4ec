"""What a learned policy is measured against, each a policy of the simulator."""
