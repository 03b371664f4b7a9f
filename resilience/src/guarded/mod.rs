//! A deadline, a breaker, and what to do when the store fails.
