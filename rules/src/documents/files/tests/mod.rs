//! Writers that are killed, and several processes that change one directory.

mod damage;
mod processes;
mod stalled;
mod trials;
