//! Who asks when: the shapes of traffic.

use fastrand::Rng;

/// How long a burst lasts and the pause after it, in seconds, on average.
const BURST: (f64, f64) = (0.5, 1.5);
/// What the hot node has of all demand.
const HOT: f64 = 0.8;

/// How demand is spread over nodes and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// All nodes alike, all the time.
    Even,
    /// The second node has half of what the first has, the third a third, and so on.
    Skewed,
    /// All nodes alike, each a quarter of the time.
    Bursty,
    /// One node has most of it.
    Hot,
}

impl Shape {
    pub const ALL: [Self; 4] = [Self::Even, Self::Skewed, Self::Bursty, Self::Hot];

    pub fn name(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Skewed => "skewed",
            Self::Bursty => "bursty",
            Self::Hot => "one hot",
        }
    }

    /// What each node has of all demand.
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

    /// The callers of each node, for so much demand per second in all.
    pub fn callers(self, nodes: usize, demand: f64) -> Vec<Callers> {
        let of = |weight| {
            let gap = 1.0 / (weight * demand);
            match self {
                Self::Bursty => {
                    Callers { gap: gap * BURST.0 / (BURST.0 + BURST.1), late: 0.0, burst: Some(0.0) }
                }
                _ => Callers { gap, late: 0.0, burst: None },
            }
        };
        self.weights(nodes).into_iter().map(of).collect()
    }
}

/// The callers of one node.
#[derive(Clone, Copy, Debug)]
pub struct Callers {
    /// Seconds between two of them, on average.
    gap: f64,
    /// By what part of that the last one came late. Each is late by itself, so that as many come as should.
    late: f64,
    /// What is left of a burst, in seconds, if they come in bursts.
    burst: Option<f64>,
}

impl Callers {
    /// Seconds until the first comes: nodes do not begin together.
    pub fn first(&mut self, random: &mut Rng) -> f64 {
        self.late = random.f64();
        match self.burst {
            Some(_) => BURST.1 * 2.0 * random.f64(),
            None => self.gap * self.late,
        }
    }

    /// Seconds from one to the next.
    pub fn next(&mut self, random: &mut Rng) -> f64 {
        let late = random.f64();
        let mut gap = self.gap * (1.0 + late - std::mem::replace(&mut self.late, late));
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

/// Up to a half less or more than one.
fn about_one(random: &mut Rng) -> f64 {
    0.5 + random.f64()
}

#[expect(clippy::cast_precision_loss, reason = "there are not that many nodes")]
fn number(nodes: usize) -> f64 {
    nodes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_have_all_of_the_demand() {
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
    fn as_many_come_as_were_asked_for() {
        for shape in Shape::ALL {
            let mut random = Rng::with_seed(7);
            let mut all = 0;
            for mut callers in shape.callers(10, 1_000.0) {
                let mut at = callers.first(&mut random);
                while at < 200.0 {
                    all += 1;
                    at += callers.next(&mut random);
                }
            }
            assert!((190_000..210_000).contains(&all), "{shape:?}: {all} in 200 s");
        }
    }
}
