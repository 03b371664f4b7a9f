//! Whether what passes is divided among nodes max-min fair: nobody gets more than it asks for, and what is left is
//! divided equally among the others.

use std::ops::Range;

use super::{PER_SECOND, SLOT, Slots};

/// The length of a judged window in seconds, and in slots.
const SECONDS: f64 = 5.0;
const WINDOW: u64 = 5 * PER_SECOND;
/// How much of the limit has to pass in a window at least.
const NEARLY_ALL: f64 = 0.92;
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
    /// Returns whether most windows could be judged, and there were any. The others say nothing about the division: a
    /// node did not get to ask for its part all the time, or less than the limit passed because rounds were late.
    pub(crate) fn judge(&self, nodes: &[Slots], slots: Range<u64>) -> bool {
        let (mut windows, mut judged) = (0, 0);
        for start in slots.start..=slots.end.saturating_sub(WINDOW) {
            windows += 1;
            let window = start..start + WINDOW;
            let granted: Vec<f64> = nodes.iter().map(|node| node.granted(window.clone()).into()).collect();
            let total = self.per_second * SECONDS;
            if !self.has_demand(nodes, &window) || granted.iter().sum::<f64>() < total * NEARLY_ALL {
                continue;
            }
            judged += 1;
            let asked: Vec<_> = nodes.iter().map(|node| node.offered(window.clone()).into()).collect();
            let fair = fair_parts(&asked, total);
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

    /// Returns whether every node that is to use more than its fair part could use that.
    fn has_demand(&self, nodes: &[Slots], window: &Range<u64>) -> bool {
        let fair = fair_parts(&self.asked, self.per_second);
        let mut hungry = (0..nodes.len()).filter(|node| self.asked[*node] > fair[*node]);
        hungry.all(|node| nodes[node].can_use(window.clone(), fair[node] * SLOT.as_secs_f64()))
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
