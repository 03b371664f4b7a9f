//! Events as metrics and as tracing.
