"""Apps that enrol themselves. No cloud is behind them: what is known of them is in the store."""
