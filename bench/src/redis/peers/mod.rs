//! Limiters of others that keep their state in Redis, each behind its own public interface and
//! set up the way its documentation shows.

#[cfg(feature = "limitador-redis")]
mod limitador;
mod throttle_kit;
mod trypema;

use super::CHECKS_50;
use super::subject::{Build, Contestant, runner};

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
