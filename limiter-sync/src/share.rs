//! Which part of what is left one node spends between two exchanges, learnt from what all of them spent.

/// How much an exchange weighs against those before it.
const MEMORY: f64 = 0.8;
/// What a node may spend beyond its part of what was spent, as a part of all: how those come in that had nothing.
const FLOOR: f64 = 1.0 / 128.0;

/// What this node and the others spent at the last exchanges.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    own: f32,
    others: f32,
    /// Spent here since the last exchange.
    spent: f32,
    /// A token that a die granted because the share of what was left is less than one.
    luck: f32,
    /// The largest cost that the share did not reach since the last exchange.
    missed: f32,
}

impl Share {
    /// Nobody else was seen: all of it.
    pub(crate) fn is_whole(&self) -> bool {
        self.others <= 0.0
    }

    fn part(&self) -> f64 {
        if self.is_whole() {
            return 1.0;
        }
        let (own, others) = (f64::from(self.own), f64::from(self.others));
        (own / (own + others) + FLOOR).min(1.0)
    }

    /// How many tokens this node may still spend of those that its copy says are `left`.
    pub(crate) fn budget(&self, left: f64) -> f64 {
        let spent = f64::from(self.spent);
        self.part() * (left + spent) + f64::from(self.luck) - spent
    }

    /// After what part of the time that `cost` tokens take to come in, the share of them is there.
    pub(crate) fn lack(&self, left: f64, cost: f64) -> f64 {
        (cost - self.budget(left)).max(0.0) / self.part()
    }

    /// Somebody was turned away although there were tokens left, only not here.
    pub(crate) fn miss(&mut self, cost: f64) {
        self.missed = self.missed.max(narrow(cost));
    }

    /// Spent here; given back if it is less than nothing.
    pub(crate) fn spend(&mut self, amount: f64) {
        self.spent = (self.spent + narrow(amount)).max(0.0);
    }

    /// Everything is there again, whatever was spent.
    pub(crate) fn refilled(&mut self) {
        self.spent = 0.0;
    }

    /// An exchange told what the others spent, while `own` was booked for this node and `pending` was spent since.
    /// `left` is what the copy had before, and `die` a random number below 1.
    pub(crate) fn learn(&mut self, own: f64, others: f64, pending: f64, left: f64, die: f64) {
        let unused = self.budget(left);
        if own + others > 0.0 {
            self.own = narrow(f64::from(self.own) * MEMORY + own);
            self.others = narrow(f64::from(self.others) * MEMORY + others);
        }
        // Less than one token can only be spent now and then: as often as to make it the share in the long run.
        let missed = f64::from(self.missed);
        self.luck = if missed > 0.0 && unused > 0.0 && unused < missed && die * missed < unused {
            self.missed
        } else {
            0.0
        };
        self.missed = 0.0;
        self.spent = narrow(pending.max(0.0));
    }
}

#[expect(clippy::cast_possible_truncation, reason = "shares need no more than seven digits")]
fn narrow(number: f64) -> f32 {
    number as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alone_everything_is_ours() {
        let mut share = Share::default();
        share.learn(10.0, 0.0, 0.0, 5.0, 0.5);
        assert!(share.is_whole());
        assert!((share.budget(5.0) - 5.0).abs() < 1e-3);
    }

    #[test]
    fn a_part_is_what_was_spent_of_all_and_a_little() {
        let mut share = Share::default();
        share.learn(25.0, 75.0, 0.0, 0.0, 0.5);
        assert!((share.budget(100.0) - (25.0 + FLOOR * 100.0)).abs() < 1e-3);
        share.spend(10.0);
        assert!((share.budget(90.0) - (15.0 + FLOOR * 100.0)).abs() < 1e-3, "counted from the exchange");
        assert!(share.budget(-50.0) < 0.0, "of a debt everyone has a part");
    }

    #[test]
    fn less_than_a_token_is_spent_as_often_as_it_is_due() {
        let mut lucky = 0;
        for die in 0..1_000 {
            let mut share = Share::default();
            share.learn(10.0, 90.0, 0.0, 0.0, 0.0);
            share.miss(1.0);
            // A tenth and the floor of two tokens.
            share.learn(0.0, 1.0, 0.0, 2.0, f64::from(die) / 1_000.0);
            lucky += u32::from(share.luck > 0.0);
        }
        assert!((200..240).contains(&lucky), "{lucky}");
    }
}
