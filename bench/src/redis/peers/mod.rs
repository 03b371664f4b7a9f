//! Other rate limiters with their state in Redis, each through its public interface, configured as its documentation
//! shows.

#[cfg(feature = "limitador-redis")]
mod limitador;
mod throttle_kit;
mod trypema;

use super::subject::{Build, Contestant, runner};
use super::workload::CHECKS_50;

pub fn all() -> Vec<Contestant> {
    vec![
        peer("trypema", |place| runner(trypema::build(place))),
        peer("throttle-kit", |place| runner(throttle_kit::build(place))),
        #[cfg(feature = "limitador-redis")]
        peer("limitador", |place| runner(limitador::build(place))),
    ]
}

fn peer(name: &'static str, build: Build) -> Contestant {
    Contestant { name, build, peer: true, workloads: &[CHECKS_50] }
}
