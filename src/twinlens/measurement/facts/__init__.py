"""Facts of the executor record that the measuring layer itself knows."""
