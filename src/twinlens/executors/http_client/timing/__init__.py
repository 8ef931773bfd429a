"""Times of arrival from the kernel's timestamps, and a timer that wakes to the microsecond."""
