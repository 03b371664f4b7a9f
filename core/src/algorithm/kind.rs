//! The kinds of algorithms: one table with the code, the name and the properties of each.

use crate::charge::Action;

macro_rules! algorithm_kinds {
    ($($(#[$doc:meta])* $kind:ident = $code:literal {
        name: $name:literal, is_flow: $is_flow:literal, reserves: $reserves:literal,
    })*) => {
        /// The algorithm of a limit.
        ///
        /// The discriminants are the codes of the algorithms in stored and sent data. They never change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum AlgorithmKind {
            $($(#[$doc])* $kind = $code,)*
        }

        impl AlgorithmKind {
            /// All algorithms, in the order of their codes.
            pub const ALL: [Self; [$($code),*].len()] = [$(Self::$kind),*];

            /// Returns the name of the algorithm, in words.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name),* }
            }

            /// Returns whether the whole state of the algorithm is one theoretical arrival time
            /// ([`Flow`](crate::store::Flow)).
            pub const fn is_flow(self) -> bool {
                match self { $(Self::$kind => $is_flow),* }
            }

            /// Returns whether the algorithm can admit a charge now that starts later. With the other algorithms,
            /// a caller waits by retrying.
            pub const fn reserves(self) -> bool {
                match self { $(Self::$kind => $reserves),* }
            }
        }
    };
}

algorithm_kinds! {
    /// A bucket of tokens that refills continuously.
    TokenBucket = 1 {
        name: "token bucket", is_flow: true, reserves: true,
    }
    /// A bucket of tokens that refills once per period.
    IntervalBucket = 2 {
        name: "token bucket refilled by interval", is_flow: false, reserves: true,
    }
    /// A leaky bucket as a meter: its level drains continuously, and a charge that would overflow it is denied.
    LeakyMeter = 3 {
        name: "leaky bucket", is_flow: true, reserves: true,
    }
    /// A leaky bucket as a queue: callers start one at a time, at a constant rate.
    LeakyQueue = 4 {
        name: "leaky bucket as a queue", is_flow: true, reserves: true,
    }
    /// One counter per window.
    FixedWindow = 5 {
        name: "fixed window", is_flow: false, reserves: false,
    }
    /// A log of exact timestamps.
    SlidingLog = 6 {
        name: "sliding log", is_flow: false, reserves: false,
    }
    /// The sum of the counters of the last sub-buckets.
    SlidingCounter = 7 {
        name: "sliding counter", is_flow: false, reserves: false,
    }
    /// The weighted count of the previous window plus the count of the current one.
    SlidingWindow = 8 {
        name: "sliding window", is_flow: false, reserves: false,
    }
    /// The generic cell rate algorithm.
    Gcra = 9 {
        name: "GCRA", is_flow: true, reserves: true,
    }
    /// A smooth limiter that stores unused permits up to a burst.
    SmoothBursty = 10 {
        name: "smooth bursty", is_flow: true, reserves: true,
    }
    /// A smooth limiter that is slow when cold.
    SmoothWarmingUp = 11 {
        name: "smooth warming up", is_flow: false, reserves: true,
    }
    /// A number of slots for work in flight.
    Concurrency = 12 {
        name: "concurrency", is_flow: false, reserves: false,
    }
}

impl AlgorithmKind {
    /// Returns the algorithm with this code, if there is one.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == code)
    }

    /// Returns why the algorithm does not support an action. `None` if it does.
    pub const fn refusal(self, action: Action) -> Option<&'static str> {
        let has_leases = matches!(self, Self::Concurrency);
        match action {
            Action::Take { max_wait: Some(_) } if has_leases => {
                Some("a concurrency limit cannot reserve: retry after `retry_after` instead")
            }
            Action::Take { max_wait: Some(_) } if !self.reserves() => {
                Some("windows and logs cannot reserve: retry after `retry_after` instead")
            }
            Action::Refund { .. } if has_leases => Some("release the lease instead of refunding it"),
            Action::Debit { .. } if has_leases => {
                Some("a concurrency limit cannot be debited: acquire a lease")
            }
            Action::Renew | Action::Release if !has_leases => Some("only concurrency limits have leases"),
            Action::Take { .. }
            | Action::TakeUpTo
            | Action::Debit { .. }
            | Action::Refund { .. }
            | Action::Reset
            | Action::Renew
            | Action::Release => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_lead_back_to_their_kind() {
        for (index, kind) in AlgorithmKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index + 1, "{kind:?}");
            assert_eq!(AlgorithmKind::from_code(kind as u8), Some(kind));
        }
        assert_eq!(AlgorithmKind::from_code(0), None);
        assert_eq!(AlgorithmKind::from_code(u8::MAX), None);
    }
}
