//! Other rate limiters, each through its public interface, configured as its documentation shows and, where there is a
//! choice, for speed.

mod governor;
mod leaky_bucket;
mod limitador;
mod throttlecrab;
mod trypema;
mod trypema_hybrid;

pub use trypema_hybrid::keyed as trypema_hybrid;

use crate::subject::{Contestant, Direct, Keyed};

pub fn all() -> Vec<Contestant> {
    vec![
        peer("governor", Some(governor::direct), Some(governor::keyed)),
        peer("limitador", None, Some(limitador::keyed)),
        peer("throttlecrab", None, Some(throttlecrab::keyed)),
        peer("leaky-bucket", Some(leaky_bucket::direct), None),
        peer("trypema", None, Some(trypema::keyed)),
    ]
}

fn peer(name: &'static str, direct: Option<Direct>, keyed: Option<Keyed>) -> Contestant {
    Contestant { name, direct, keyed, workloads: None, peer: true }
}
