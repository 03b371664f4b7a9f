//! When requests arrive: the shapes of traffic.

use fastrand::Rng;

/// The average length of a burst and of the pause after it, in seconds.
const BURST: (f64, f64) = (0.5, 1.5);
/// The share of the hot node in all demand.
const HOT: f64 = 0.8;

/// How demand is spread over nodes and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Equal demand on all nodes, all the time.
    Even,
    /// The second node has half the demand of the first, the third a third, and so on.
    Skewed,
    /// Equal demand on all nodes, each active a quarter of the time.
    Bursty,
    /// Most of the demand is on one node.
    Hot,
}

impl Shape {
    pub(crate) const ALL: [Self; 4] = [Self::Even, Self::Skewed, Self::Bursty, Self::Hot];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Skewed => "skewed",
            Self::Bursty => "bursty",
            Self::Hot => "one hot",
        }
    }

    /// Returns the share of each node in all demand.
    fn weights(self, nodes: usize) -> Vec<f64> {
        let weight = |node: usize| match self {
            Self::Even | Self::Bursty => 1.0,
            Self::Skewed => 1.0 / number(node + 1),
            Self::Hot if node == 0 => HOT,
            Self::Hot => (1.0 - HOT) / number(nodes - 1),
        };
        let weights: Vec<f64> = (0..nodes).map(weight).collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / sum).collect()
    }

    /// Returns the arrivals on each node, for a total demand in requests per second.
    pub(crate) fn arrivals(self, nodes: usize, demand: f64) -> Vec<Arrivals> {
        let of = |weight| {
            let gap = 1.0 / (weight * demand);
            match self {
                Self::Bursty => {
                    Arrivals { gap: gap * BURST.0 / (BURST.0 + BURST.1), delay: 0.0, burst: Some(0.0) }
                }
                Self::Even | Self::Skewed | Self::Hot => Arrivals::steady(weight * demand),
            }
        };
        self.weights(nodes).into_iter().map(of).collect()
    }
}

/// The arrivals of requests on one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrivals {
    /// The average time between two requests, in seconds.
    gap: f64,
    /// The delay of the last request, as a fraction of `gap`. Delays are independent, so that the rate is exact.
    delay: f64,
    /// The rest of the current burst in seconds, if requests arrive in bursts.
    burst: Option<f64>,
}

impl Arrivals {
    /// Returns requests that arrive all the time, so many per second.
    pub(crate) fn steady(per_second: f64) -> Self {
        Self { gap: 1.0 / per_second, delay: 0.0, burst: None }
    }

    /// Returns the seconds until the first request: nodes do not start together.
    pub(crate) fn first(&mut self, random: &mut Rng) -> f64 {
        self.delay = random.f64();
        match self.burst {
            Some(_) => BURST.1 * 2.0 * random.f64(),
            None => self.gap * self.delay,
        }
    }

    /// Returns the seconds from one request to the next.
    pub(crate) fn next(&mut self, random: &mut Rng) -> f64 {
        let delay = random.f64();
        let mut gap = self.gap * (1.0 + delay - std::mem::replace(&mut self.delay, delay));
        if let Some(left) = &mut self.burst {
            let mut rest = gap;
            while rest > *left {
                rest -= *left;
                gap += BURST.1 * about_one(random);
                *left = BURST.0 * about_one(random);
            }
            *left -= rest;
        }
        gap
    }
}

/// Returns a random number between 0.5 and 1.5.
fn about_one(random: &mut Rng) -> f64 {
    0.5 + random.f64()
}

#[expect(clippy::cast_precision_loss, reason = "a number of nodes")]
fn number(nodes: usize) -> f64 {
    nodes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_all_demand() {
        for shape in Shape::ALL {
            for nodes in [3, 10, 1_000] {
                let sum: f64 = shape.weights(nodes).iter().sum();
                assert!((sum - 1.0).abs() < 1e-9, "{shape:?} of {nodes}: {sum}");
            }
        }
        let skewed = Shape::Skewed.weights(10);
        assert!((skewed[0] / skewed[4] - 5.0).abs() < 1e-9);
        assert!((Shape::Hot.weights(10)[0] - HOT).abs() < 1e-9);
    }

    #[test]
    fn the_number_of_requests_matches_the_demand() {
        for shape in Shape::ALL {
            let mut random = Rng::with_seed(7);
            let mut all = 0;
            for mut arrivals in shape.arrivals(10, 1_000.0) {
                let mut at = arrivals.first(&mut random);
                while at < 200.0 {
                    all += 1;
                    at += arrivals.next(&mut random);
                }
            }
            assert!((190_000..210_000).contains(&all), "{shape:?}: {all} in 200 s");
        }
    }
}
