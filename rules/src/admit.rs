//! Decides what a request matched, on the store of a limiter.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::store::{RawDecision, Store};
use tollgate_core::{Admission, Charge, Clock, Decision, Limiter, Request, StoreError, Time, Verdict};

use crate::matching::{Effect, Match, Matched};

impl Matched<'_> {
    /// Decides the request: debits all of its limits or none, counts what is in shadow mode, and takes the slots of
    /// `concurrent` limits, which the admission holds until it is dropped. One call of the store.
    ///
    /// A request that a rule denies by itself ([`denied`](Self::denied)) is denied without a call, with the source
    /// [`Rule`](tollgate_core::Source::Rule); one that no rule applies to is allowed. Of several descriptors in quota
    /// mode, each is counted by itself, and the request is denied only if all of them are exhausted; such a denial has
    /// no `retry_after`. If the store fails to decide some of them and the others are exhausted, that is an error.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::rules::{RuleSet, Source};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let rules = RuleSet::from_sources([Source::new("shop.yaml", "
    /// domain: shop
    /// rules:
    ///   - name: api
    ///     when: { path: /api/** }
    ///     per: user
    ///     limit: [2/s, 10000/day]
    /// ")])?;
    /// let limiter = Arc::new(tollgate::in_memory());
    /// let shop = rules.domain("shop").ok_or("no such domain")?;
    ///
    /// let request = [("path", "/api/items"), ("user", "alice")];
    /// for allowed in [true, true, false] {
    ///     let admission = shop.match_attributes(&request).admit(&limiter).await?;
    ///     assert_eq!(admission.is_allowed(), allowed);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn admit<S: Store + 'static, C: Clock + 'static>(
        &self,
        limiter: &Arc<Limiter<S, C>>,
    ) -> Result<Admission, StoreError> {
        if self.denied() {
            return Ok(denied_by_rule(limiter.clock()));
        }
        let quotas = self.charges_where(|one| !one.shadow() && one.quota_mode());
        let mut shadowed = self.shadow_charges();
        // One quota decides like any other limit.
        if quotas.is_empty() || (quotas.len() == 1 && !self.has_unlimited_quota()) {
            return limiter.admit(&self.charges(), &shadowed).await;
        }
        let in_shadow_mode = shadowed.len();
        let enforced = self.charges_where(|one| !one.shadow() && !one.quota_mode());
        shadowed.extend(quotas);
        let admission = limiter.admit(&enforced, &shadowed).await?;
        let (in_shadow_mode, quotas) = admission.shadowed().split_at(in_shadow_mode);
        let has_quota = || quotas.iter().flatten().any(|decision| !decision.is_shadowed());
        if admission.is_denied() || self.has_unlimited_quota() || has_quota() {
            return Ok(admission);
        }
        let decided_at = admission.verdict().decided_at();
        refund(limiter, enforced.iter().zip(admission.verdict().decisions()), decided_at);
        let counted = shadowed.iter().zip(in_shadow_mode);
        refund(
            limiter,
            counted.filter_map(|(charge, decision)| Some((charge, decision.as_ref()?))),
            decided_at,
        );
        // Whether a quota is exhausted that the store failed to decide is unknown.
        match admission.shadow_error() {
            Some(error) if quotas.contains(&None) => Err(error.clone()),
            Some(_) | None => Ok(denied_by_rule(limiter.clock())),
        }
    }

    /// Returns whether a descriptor in quota mode is unlimited, and thus never exhausted.
    fn has_unlimited_quota(&self) -> bool {
        self.iter().any(|one| !one.shadow() && one.quota_mode() && one.effect() == Effect::Unlimited)
    }

    fn charges_where(&self, is_meant: impl Fn(&Match<'_, '_>) -> bool) -> SmallVec<[Charge<'_>; 4]> {
        let meant = self.iter().filter(|one| is_meant(one) && !one.is_repeated());
        meant.filter_map(|one| one.charge()).collect()
    }
}

fn denied_by_rule(clock: &impl Clock) -> Admission {
    Admission::by(Verdict::one(RawDecision::deny_by_rule().into(), clock.now()))
}

/// Refunds what a request was charged that is denied after all. Slots are released with the admission.
fn refund<'a, S: Store, C: Clock>(
    limiter: &Limiter<S, C>,
    charged: impl Iterator<Item = (&'a Charge<'a>, &'a Decision)>,
    decided_at: Time,
) {
    for (charge, decision) in charged {
        if let Some(refund) = charge.compensation(decision, decided_at) {
            limiter.store().decide_detached(Request::new(&[refund]), limiter.clock().now());
        }
    }
}
