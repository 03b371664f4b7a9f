//! The workloads of limiters in this process.

use crate::subject::{Contestant, Traffic};

pub const THREADS: [usize; 2] = [1, 2];

pub const DIRECT: &str = "direct";
pub const HOT: &str = "hot";
pub const MANY: &str = "100k";
/// The workload whose preparation measures the bytes per key.
pub const MILLION: &str = "1m";

/// The form of a limiter that a workload needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Direct,
    Keyed,
}

pub struct Workload {
    pub name: &'static str,
    pub form: Form,
    pub traffic: Traffic,
    pub keys: usize,
    /// The peers that have this form.
    pub peers: &'static [&'static str],
    /// The name of the workload in claim lines.
    pub claimed_as: &'static str,
}

pub const KEYED_PEERS: &[&str] = &["governor", "limitador", "throttlecrab", "trypema"];

pub const WORKLOADS: [Workload; 6] = [
    Workload {
        name: DIRECT,
        form: Form::Direct,
        traffic: Traffic::Admitted,
        keys: 1,
        peers: &["governor", "leaky-bucket"],
        claimed_as: DIRECT,
    },
    Workload {
        name: HOT,
        form: Form::Keyed,
        traffic: Traffic::Admitted,
        keys: 1,
        peers: KEYED_PEERS,
        claimed_as: HOT,
    },
    Workload {
        name: MANY,
        form: Form::Keyed,
        traffic: Traffic::Admitted,
        keys: 100_000,
        peers: KEYED_PEERS,
        claimed_as: MANY,
    },
    Workload {
        name: MILLION,
        form: Form::Keyed,
        traffic: Traffic::Admitted,
        keys: 1_000_000,
        peers: KEYED_PEERS,
        claimed_as: MILLION,
    },
    Workload {
        name: "denied",
        form: Form::Keyed,
        traffic: Traffic::Denied,
        keys: 1,
        peers: KEYED_PEERS,
        claimed_as: "denied",
    },
    // A peer without keys is compared with Tollgate's limiter without keys, under the name of the keyed workload.
    Workload {
        name: "denied-direct",
        form: Form::Direct,
        traffic: Traffic::Denied,
        keys: 1,
        peers: &["leaky-bucket"],
        claimed_as: "denied",
    },
];

impl Workload {
    /// Returns the names of the findings of this workload.
    pub fn columns(&self) -> impl Iterator<Item = String> {
        THREADS.into_iter().map(|threads| column(self.name, threads))
    }

    /// Returns whether a contestant takes part.
    pub fn has(&self, contestant: &Contestant) -> bool {
        let has_form = match self.form {
            Form::Direct => contestant.direct.is_some(),
            Form::Keyed => contestant.keyed.is_some(),
        };
        has_form && contestant.workloads.is_none_or(|names| names.contains(&self.name))
    }
}

pub fn column(workload: &str, threads: usize) -> String {
    format!("{workload}-{threads}t")
}
