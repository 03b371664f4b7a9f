//! Few calls for many checks: what gathers while a call is in flight goes with the next.
