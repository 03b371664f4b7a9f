//! Whether what passes is divided among nodes max-min fair: nobody gets more than it asks for, and what is left is
//! divided equally among the others.

use std::ops::Range;

use super::{PER_SECOND, Slots};

/// The length of a judged window in slots: 5 s.
const WINDOW: u64 = 5 * PER_SECOND;
/// The parts of a window in which a node has to ask for enough each: half seconds.
const PART: u64 = PER_SECOND / 2;
/// How many times its fair part a node asks for if it would use more than that.
const ENOUGH: f64 = 1.25;
/// The least that a node gets of its fair part.
const LEAST: f64 = 0.85;

/// Nodes that share a key, and what is expected of them.
pub(crate) struct Division {
    /// The limit.
    pub(crate) per_second: f64,
    /// What each node asks for per second.
    pub(crate) asked: Vec<f64>,
    /// The most that a node gets of its fair part.
    pub(crate) most: f64,
}

impl Division {
    /// Judges all windows of 5 s in a range of slots. Panics if a node got too little or too much in one of them.
    /// Returns whether most windows could be judged, and there were any. The others say nothing, because the machine
    /// was slow: a node did not get to ask for clearly more than its part all the time, although it was to.
    pub(crate) fn judge(&self, nodes: &[Slots], slots: Range<u64>) -> bool {
        let (mut windows, mut judged) = (0, 0);
        for start in slots.start..=slots.end.saturating_sub(WINDOW) {
            windows += 1;
            let window = start..start + WINDOW;
            if !self.has_demand(nodes, &window) {
                continue;
            }
            judged += 1;
            let asked: Vec<_> = nodes.iter().map(|node| node.offered(window.clone()).into()).collect();
            let fair = fair_parts(&asked, self.per_second * seconds(WINDOW));
            let granted: Vec<f64> = nodes.iter().map(|node| node.granted(window.clone()).into()).collect();
            for (fair, granted_one) in fair.iter().zip(&granted) {
                // A token that passes right before or after the window is missing in it, or too many.
                assert!(
                    granted_one + 1.0 >= fair * LEAST && granted_one - 1.0 <= fair * self.most,
                    "{granted_one} instead of {fair} in 5 s: {granted:?} of {asked:?}"
                );
            }
        }
        judged * 2 > windows
    }

    /// Returns whether every node that is to use more than its fair part asked for clearly more, all the time.
    fn has_demand(&self, nodes: &[Slots], window: &Range<u64>) -> bool {
        let fair = fair_parts(&self.asked, self.per_second * seconds(PART));
        let per_part = |asked: f64| asked * seconds(PART);
        let hungry = |node: usize| per_part(self.asked[node]) > fair[node];
        let enough =
            |node: usize, start| f64::from(nodes[node].offered(start..start + PART)) >= fair[node] * ENOUGH;
        let mut starts = (window.start..window.end).step_by(usize::try_from(PART).expect("small"));
        starts.all(|start| (0..nodes.len()).filter(|node| hungry(*node)).all(|node| enough(node, start)))
    }
}

/// Returns the part of each node if `total` is divided max-min fair.
fn fair_parts(asked: &[f64], total: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..asked.len()).collect();
    order.sort_by(|one, other| asked[*one].total_cmp(&asked[*other]));
    let (mut parts, mut left) = (vec![0.0; asked.len()], total);
    for (index, nodes) in order.iter().zip((1..=asked.len()).rev()) {
        parts[*index] = asked[*index].min(left / f64::from(u32::try_from(nodes).expect("few")));
        left -= parts[*index];
    }
    parts
}

fn seconds(slots: u64) -> f64 {
    f64::from(u32::try_from(slots).expect("few")) / f64::from(u32::try_from(PER_SECOND).expect("few"))
}
