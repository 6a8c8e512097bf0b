"""The laws of losses, stores and folds, for tests: functions that raise AssertionError."""
