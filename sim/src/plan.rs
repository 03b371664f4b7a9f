//! What happens in a run: which node receives how many requests and when, and when it is cut off.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use crate::fleet::Mode;
use crate::simulation::Bucket;
use crate::traffic::Arrivals;

/// What happens in a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) mode: Mode,
    pub(crate) bucket: Bucket,
    pub(crate) interval: Duration,
    pub(crate) span: Duration,
    pub(crate) seed: u64,
    pub(crate) nodes: Vec<NodePlan>,
    /// If present, only as many requests arrive as this bucket holds, on all nodes together.
    pub(crate) at_most: Option<Bucket>,
}

impl fmt::Display for Plan {
    /// Which run it is, without its up to a thousand nodes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mode, bucket, interval, seed, nodes, .. } = self;
        write!(f, "{} nodes, {}, {bucket}, {interval:?}, seed {seed}", nodes.len(), mode.name())
    }
}

/// What happens on one node. Instants are in seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodePlan {
    /// Requests that arrive all the time.
    pub(crate) arrivals: Option<Arrivals>,
    /// When it receives none of them.
    pub(crate) asleep: Option<Range<f64>>,
    /// Requests that arrive at once: when, and how many.
    pub(crate) bursts: Vec<(f64, u32)>,
    /// When it cannot reach the central store.
    pub(crate) cut: Option<Range<f64>>,
}

impl NodePlan {
    /// Creates the plan of a node that receives requests all the time.
    pub(crate) fn new(arrivals: Arrivals) -> Self {
        Self { arrivals: Some(arrivals), ..Self::default() }
    }

    pub(crate) fn is_awake(&self, second: f64) -> bool {
        self.asleep.as_ref().is_none_or(|asleep| !asleep.contains(&second))
    }
}

/// Something that runs are compared by, from which follows what happens in them.
pub(crate) trait Planned {
    fn plan(&self) -> Plan;
}
