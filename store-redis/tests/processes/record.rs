//! What was asked and what was told, as a line of text.

use std::fmt::{self, Display, Formatter};
use std::str::{FromStr, SplitWhitespace};
use std::time::Duration;

use tollgate_core::store::RawDecision;
use tollgate_core::{Action, Decision, IdempotencyKey, LeaseId, Outcome, Source, Time};

/// One call, which the server executed in one step.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// By the server's clock.
    pub(crate) at: Time,
    pub(crate) turns: Vec<Turn>,
}

/// A run of equal requests.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) id: Option<IdempotencyKey>,
    pub(crate) count: u32,
    pub(crate) asks: Vec<Ask>,
    /// For every repetition, a decision for each of the asks.
    pub(crate) told: Vec<Decision>,
}

/// A charge, its limit and its key by number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) limit: usize,
    pub(crate) key: usize,
    pub(crate) cost: u32,
    pub(crate) action: Action,
    pub(crate) lease: LeaseId,
}

const NONE: &str = "-";

impl Record {
    /// What [`Display`] has written.
    pub(crate) fn read(line: &str) -> Self {
        let mut words = Words(line.split_whitespace());
        let at = Time::from_nanos(words.next());
        let turns = (0..words.next()).map(|_| words.turn()).collect();
        Self { at, turns }
    }
}

impl Display for Record {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.at.nanos(), self.turns.len())?;
        for turn in &self.turns {
            let id = turn.id.map(IdempotencyKey::get);
            write!(f, " {} {} {} {}", Maybe(id), turn.count, turn.asks.len(), turn.told.len())?;
            for ask in &turn.asks {
                let (action, instant) = (ask.action.code(), ask.action.nanos());
                let Ask { limit, key, cost, lease, .. } = ask;
                write!(f, " {limit} {key} {cost} {action} {} {}", Maybe(instant), lease.get())?;
            }
            for decision in &turn.told {
                let RawDecision { outcome, granted, limit, left, unit, wait, reset, .. } = decision.raw();
                let outcome = OUTCOMES.iter().position(|known| *known == outcome).ok_or(fmt::Error)?;
                write!(f, " {outcome} {granted} {limit} {left} {unit} {wait} {reset}")?;
            }
        }
        Ok(())
    }
}

const OUTCOMES: [Outcome; 4] = [Outcome::Allowed, Outcome::Denied, Outcome::NeverFits, Outcome::LeaseLost];

struct Maybe<T>(Option<T>);

impl<T: Display> Display for Maybe<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(number) => number.fmt(f),
            None => f.write_str(NONE),
        }
    }
}

/// An action as numbers: which, and the instant or the wait that it names.
fn action((number, instant): (u8, Option<u64>)) -> Action {
    let at = instant.map(Time::from_nanos);
    match number {
        1 => Action::Take { max_wait: instant.map(Duration::from_nanos) },
        2 => Action::TakeUpTo,
        3 => Action::Debit { at },
        4 => Action::Refund { at },
        5 => Action::Reset,
        6 => Action::Renew,
        7 => Action::Release,
        other => panic!("no action has the number {other}"),
    }
}

struct Words<'a>(SplitWhitespace<'a>);

impl Words<'_> {
    fn maybe<T: FromStr>(&mut self) -> Option<T> {
        let word = self.0.next().expect("a whole line");
        let read = || word.parse().unwrap_or_else(|_| panic!("{word} is no such number"));
        (word != NONE).then(read)
    }

    fn next<T: FromStr>(&mut self) -> T {
        self.maybe().expect("a number")
    }

    fn turn(&mut self) -> Turn {
        let id = self.maybe().map(IdempotencyKey::new);
        let (count, asks, told): (_, usize, usize) = (self.next(), self.next(), self.next());
        Turn {
            id,
            count,
            asks: (0..asks).map(|_| self.ask()).collect(),
            told: (0..told).map(|_| self.decision()).collect(),
        }
    }

    fn ask(&mut self) -> Ask {
        Ask {
            limit: self.next(),
            key: self.next(),
            cost: self.next(),
            action: action((self.next(), self.maybe())),
            lease: LeaseId::new(self.next()),
        }
    }

    fn decision(&mut self) -> Decision {
        let raw = RawDecision {
            outcome: OUTCOMES[self.next::<usize>()],
            source: Source::Store,
            granted: self.next(),
            limit: self.next(),
            left: self.next(),
            unit: self.next(),
            wait: self.next(),
            reset: self.next(),
        };
        raw.into()
    }
}
