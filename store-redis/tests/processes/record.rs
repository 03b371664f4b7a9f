//! Requests and decisions, as a line of text.

use std::fmt::{self, Display, Formatter};
use std::str::{FromStr, SplitWhitespace};
use std::time::Duration;

use tollgate_core::store::RawDecision;
use tollgate_core::{Action, Decision, IdempotencyKey, LeaseId, Outcome, Source, Time};

/// One call, which the server executed atomically.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// The server's time.
    pub(crate) at: Time,
    pub(crate) runs: Vec<RecordedRun>,
}

/// A run of equal requests.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRun {
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) count: u32,
    pub(crate) asks: Vec<Ask>,
    /// For each repetition, a decision for each ask.
    pub(crate) decisions: Vec<Decision>,
}

/// A charge, with its limit and its entity by index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) limit: usize,
    pub(crate) entity: usize,
    pub(crate) cost: u32,
    pub(crate) action: Action,
    pub(crate) lease: LeaseId,
}

const NONE: &str = "-";

impl Record {
    /// Parses a line that [`Display`] has written.
    pub(crate) fn read(line: &str) -> Self {
        let mut words = Words(line.split_whitespace());
        let at = Time::from_nanos(words.next());
        let runs = (0..words.next()).map(|_| words.run()).collect();
        Self { at, runs }
    }
}

impl Display for Record {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.at.nanos(), self.runs.len())?;
        for run in &self.runs {
            let key = run.key.map(IdempotencyKey::get);
            write!(f, " {} {} {} {}", Maybe(key), run.count, run.asks.len(), run.decisions.len())?;
            for ask in &run.asks {
                let (action, instant) = (ask.action.code(), ask.action.nanos());
                let Ask { limit, entity, cost, lease, .. } = ask;
                write!(f, " {limit} {entity} {cost} {action} {} {}", Maybe(instant), lease.get())?;
            }
            for decision in &run.decisions {
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

/// Decodes an action from its code, and its instant or maximum wait.
fn action((code, instant): (u8, Option<u64>)) -> Action {
    let at = instant.map(Time::from_nanos);
    match code {
        1 => Action::Take { max_wait: instant.map(Duration::from_nanos) },
        2 => Action::TakeUpTo,
        3 => Action::Debit { at },
        4 => Action::Refund { at },
        5 => Action::Reset,
        6 => Action::Renew,
        7 => Action::Release,
        other => panic!("no action has the code {other}"),
    }
}

struct Words<'a>(SplitWhitespace<'a>);

impl Words<'_> {
    fn maybe<T: FromStr>(&mut self) -> Option<T> {
        let word = self.0.next().expect("a whole line");
        let read = || word.parse().unwrap_or_else(|_| panic!("cannot parse {word}"));
        (word != NONE).then(read)
    }

    fn next<T: FromStr>(&mut self) -> T {
        self.maybe().expect("a number")
    }

    fn run(&mut self) -> RecordedRun {
        let key = self.maybe().map(IdempotencyKey::new);
        let (count, asks, decisions): (_, usize, usize) = (self.next(), self.next(), self.next());
        RecordedRun {
            key,
            count,
            asks: (0..asks).map(|_| self.ask()).collect(),
            decisions: (0..decisions).map(|_| self.decision()).collect(),
        }
    }

    fn ask(&mut self) -> Ask {
        Ask {
            limit: self.next(),
            entity: self.next(),
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
