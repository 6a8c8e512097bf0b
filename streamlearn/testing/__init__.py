"""The laws of losses, bases, stores and folds, for tests: functions that raise AssertionError."""
