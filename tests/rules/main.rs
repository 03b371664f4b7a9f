//! Rules from their file to the decision, on the memory store and a manual clock.

mod design;
mod envoy;
mod failing;
mod failure_policies;
mod hot_reload;
mod http_requests;
mod plans;
mod quotas;

use std::sync::Arc;

use tollgate::memory::MemoryStore;
use tollgate::rules::{Attributes, Descriptor, Domain, RuleSet, Source};
use tollgate::{Admission, Limiter, ManualClock};

/// The rules of one file with one domain, and a limiter.
struct Bench {
    rules: RuleSet,
    limiter: Arc<Limiter<MemoryStore, ManualClock>>,
    clock: ManualClock,
}

impl Bench {
    fn new(file: &str, text: &str) -> Self {
        let rules = match RuleSet::from_sources([Source::new(file, text)]) {
            Ok(rules) => rules,
            Err(errors) => panic!("{errors}"),
        };
        let clock = ManualClock::default();
        let limiter = Arc::new(Limiter::with_clock(MemoryStore::new(), clock.clone()));
        Self { rules, limiter, clock }
    }

    fn domain(&self) -> &Domain {
        self.rules.domains().next().expect("one domain")
    }

    async fn admit(&self, request: &(impl Attributes + ?Sized)) -> Admission {
        let admission = self.domain().match_attributes(request).admit(&self.limiter).await;
        admission.expect("the memory store never fails")
    }

    /// Returns how many of this many requests are admitted. None of them keeps a slot.
    async fn count(&self, requests: usize, request: &(impl Attributes + ?Sized)) -> usize {
        let mut admitted = 0;
        for _ in 0..requests {
            admitted += usize::from(self.admit(request).await.is_allowed());
        }
        admitted
    }

    async fn admit_descriptors(&self, descriptors: &[impl Descriptor]) -> Admission {
        let admission = self.domain().match_descriptors(descriptors).admit(&self.limiter).await;
        admission.expect("the memory store never fails")
    }

    /// Returns how many of this many requests are admitted.
    async fn count_descriptors(&self, requests: usize, descriptors: &[impl Descriptor]) -> usize {
        let mut admitted = 0;
        for _ in 0..requests {
            admitted += usize::from(self.admit_descriptors(descriptors).await.is_allowed());
        }
        admitted
    }
}
