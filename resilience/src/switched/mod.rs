//! Limits that are switched off or only watched, and keys that pass or do not, while a program runs.
