//! Getting tokens from the centre for a charge that lacks some: one caller asks, and whoever else needs them waits for it.

use std::sync::Arc;

use tollgate_core::store::Store;
use tollgate_core::{Charge, Clock, Request, Time};

use crate::pool::Pool;
use crate::shared::{Shared, is_centres_own};
use crate::table::{Ledger, Print};

impl<S: Store, C: Clock> Shared<S, C> {
    /// Gets more tokens for a charge, or waits for whoever is getting them. Whether it is worth looking again.
    pub(crate) async fn fill(&self, charge: &Charge<'_>, now: Time) -> bool {
        let print = self.table.print(charge);
        let begun = {
            let mut shard = self.table.lock(self.table.shard_of(print));
            let Some(index) = shard.find(print) else { return false };
            shard.make_due(index);
            let Some(replica) = shard.get(index) else { return false };
            let Ledger::Pool(pool) = &mut replica.ledger else { return false };
            match pool.filling() {
                // Made under the lock, so that it cannot be over before we listen.
                Some(filling) => Err(filling.notified_owned()),
                None => Ok((pool.begin(charge, &replica.tracked), Arc::clone(&replica.tracked))),
            }
        };
        let (wanted, tracked) = match begun {
            Ok(begun) => begun,
            Err(filled) => {
                filled.await;
                return true;
            }
        };
        let mut end = EndOfFilling { shared: self, print, done: false };
        let sent_at = self.clock.now();
        let request = [wanted];
        let answer = self.store.decide(Request::new(&request), self.to_centre(now)).await;
        end.done = true;
        let verdict = match answer {
            Ok(verdict) if is_centres_own(&verdict) => {
                self.heard(verdict.decided_at(), sent_at);
                Some(verdict)
            }
            Ok(_) => {
                self.asks(sent_at);
                None
            }
            Err(error) => {
                self.refused(&error, sent_at);
                None
            }
        };
        let told = verdict.as_ref().and_then(|verdict| Some((verdict.decisions().first()?, verdict)));
        end.with(|pool| match told {
            Some((decision, verdict)) => pool.filled(&wanted, decision, verdict.decided_at(), &tracked),
            // From now on, however long that took: whoever waits for it is not to ask again at once.
            None => pool.unreachable(&tracked, self.now()),
        });
        true
    }
}

/// Whoever asks the centre for tokens wakes those who wait, even if it goes away itself.
struct EndOfFilling<'a, S: Store, C: Clock> {
    shared: &'a Shared<S, C>,
    print: Print,
    done: bool,
}

impl<S: Store, C: Clock> EndOfFilling<'_, S, C> {
    fn with(&self, act: impl FnOnce(&mut Pool)) {
        let mut shard = self.shared.table.lock(self.shared.table.shard_of(self.print));
        let found = shard.find(self.print);
        if let Some(replica) = found.and_then(|index| shard.get(index))
            && let Ledger::Pool(pool) = &mut replica.ledger
        {
            act(pool);
        }
    }
}

impl<S: Store, C: Clock> Drop for EndOfFilling<'_, S, C> {
    fn drop(&mut self) {
        if !self.done {
            self.with(Pool::end);
        }
    }
}
