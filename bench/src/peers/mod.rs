//! Limiters of others, each behind its own public interface, set up the way its
//! documentation shows and, where that leaves a choice, the way it is fastest.

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
    Contestant { name, direct, keyed, hot_only: false, peer: true }
}
