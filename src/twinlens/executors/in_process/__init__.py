"""What every engine in this process shares, whatever computes: its data, its fidelity, its ceilings, its checks."""
