//! Fair parts: how much of the limit each node should have, and how much of that it got.

use crate::figures::float;
use crate::simulation::{Bucket, Checked};

/// The length of the windows in which fairness is measured, in seconds.
const WINDOW: f64 = 5.0;
/// A window is longer if less than this many tokens per node are refilled in it: counting is too coarse otherwise.
const TOKENS: f64 = 20.0;
/// A window starts with each slot.
const SLOT: f64 = 0.1;
const SLOT_NANOS: u64 = 100_000_000;
/// In windows in which more than this times what is refilled passes, a burst does, and whoever comes first has it.
const MORE: f64 = 1.02;

/// What nodes got of their fair parts, in the worst window of the worst node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FairParts {
    /// The smallest part.
    pub(crate) least: f64,
    /// The largest part, among the nodes that asked for more than they got, while no burst is left.
    pub(crate) most: f64,
}

/// Returns the length of the windows in which the parts of so many nodes are measured, in seconds.
pub(crate) fn window(bucket: Bucket, nodes: usize) -> f64 {
    WINDOW.max(TOKENS * float(nodes) / f64::from(bucket.per_second))
}

impl FairParts {
    /// Compares what each node got with its max-min fair part of what is refilled in a window, in every window from an
    /// instant on. Less than a whole request is a matter of counting: what a node got may be one request too few or too
    /// many.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of slots")]
    pub(crate) fn of(requests: &[Checked], bucket: Bucket, nodes: usize, from: f64, until: f64) -> Self {
        let slot = |second: f64| (second / SLOT).round() as usize;
        let mut asked = vec![vec![0.0; nodes]; slot(until) + 1];
        let mut got = asked.clone();
        for request in requests {
            let slot = usize::try_from(request.at / SLOT_NANOS).unwrap_or_default().min(slot(until));
            asked[slot][request.node] += 1.0;
            if request.allowed {
                got[slot][request.node] += 1.0;
            }
        }
        let window = window(bucket, nodes);
        let (refilled, window) = (f64::from(bucket.per_second) * window, slot(window));
        let sum = |of: &[Vec<f64>], node: usize| of.iter().map(|slot| slot[node]).sum::<f64>();
        let first = slot(from);
        let mut parts = Self { least: f64::MAX, most: 0.0 };
        for start in first..=slot(until) - window {
            let window = start..start + window;
            let asked: Vec<f64> = (0..nodes).map(|node| sum(&asked[window.clone()], node)).collect();
            let got_by = |node| sum(&got[window.clone()], node);
            let fair = level(&asked, refilled);
            let burst = (0..nodes).map(got_by).sum::<f64>() > refilled * MORE;
            for (node, asked) in asked.iter().enumerate().filter(|(_, asked)| **asked > 0.0) {
                let got = got_by(node);
                parts.least = parts.least.min((got + 1.0) / asked.min(fair));
                if got < *asked && !burst {
                    parts.most = parts.most.max((got - 1.0) / fair);
                }
            }
        }
        parts
    }

    /// Returns the worse of both.
    pub(crate) fn worst(self, other: Self) -> Self {
        Self { least: self.least.min(other.least), most: self.most.max(other.most) }
    }
}

/// Returns the largest fair part: nodes that ask for less get that, and the others equal parts of the rest.
fn level(asked: &[f64], refilled: f64) -> f64 {
    let mut sorted = asked.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut rest = refilled;
    for (number, asked) in sorted.iter().enumerate() {
        let equal = rest / float(sorted.len() - number);
        if *asked >= equal {
            return equal;
        }
        rest -= asked;
    }
    f64::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_below_the_level_leave_the_rest_to_the_others() {
        assert!((level(&[10.0, 80.0, 80.0], 90.0) - 40.0).abs() < 1e-9);
        assert!((level(&[80.0, 80.0], 90.0) - 45.0).abs() < 1e-9);
        assert!(level(&[10.0, 20.0], 90.0) > 1e9, "there is enough for all");
    }

    #[test]
    fn the_worst_window_of_the_worst_node_counts() {
        // 20 per second on two nodes for ten seconds. One of them gets 9 a second, and in one second only 4.
        let requests = |node: usize| {
            (0..200_u64).map(move |number| {
                let (at, turn) = (number * 50_000_000, number % 20);
                let second = number / 20;
                let allowed = if node == 0 { turn < 10 } else { turn < if second == 7 { 4 } else { 9 } };
                Checked { at, node, allowed }
            })
        };
        let all: Vec<_> = requests(0).chain(requests(1)).collect();
        let parts = FairParts::of(&all, Bucket::new(20, 20), 2, 0.0, 10.0);
        assert!((parts.least - 41.0 / 50.0).abs() < 1e-9, "{parts:?}");
        let parts = FairParts::of(&all, Bucket::new(20, 20), 2, 0.0, 7.0);
        assert!(parts.least > 0.9, "{parts:?}: an earlier end");
    }
}
