//! Callers that ask as often as they can, for some time.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::redis::subject::Failure;

/// What all callers of a lap did together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    pub admitted: u64,
    /// Those that were admitted before time was up. The others were under way by then.
    pub in_time: u64,
    pub errors: u64,
    pub first_error: Option<String>,
    pub slowest: Duration,
}

/// Calls by so many callers, each one call after the other, until the time is up. A call says whether it was admitted.
#[expect(clippy::disallowed_methods, reason = "a stopwatch needs the machine's time")]
pub async fn call<F>(
    callers: u32,
    span: Duration,
    call: impl Fn() -> F + Clone + Send + 'static,
) -> Result<Tally, Failure>
where
    F: Future<Output = Result<bool, Failure>> + Send,
{
    let end = Instant::now() + span;
    let mut tasks = JoinSet::new();
    for _ in 0..callers {
        let call = call.clone();
        tasks.spawn(async move {
            let (mut tally, mut began) = (Tally::default(), Instant::now());
            while began < end {
                let answer = call().await;
                let ended = Instant::now();
                tally.slowest = tally.slowest.max(ended - began);
                match answer {
                    Ok(admitted) => {
                        tally.admitted += u64::from(admitted);
                        tally.in_time += u64::from(admitted && ended <= end);
                    }
                    Err(error) => {
                        tally.errors += 1;
                        tally.first_error.get_or_insert_with(|| error.to_string());
                    }
                }
                began = ended;
            }
            tally
        });
    }
    let mut all = Tally::default();
    while let Some(tally) = tasks.join_next().await {
        all.add(tally?);
    }
    Ok(all)
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.admitted += other.admitted;
        self.in_time += other.in_time;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
        self.slowest = self.slowest.max(other.slowest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_callers_did_adds_up() {
        let tally = |admitted, error: Option<&str>, slowest| Tally {
            admitted,
            in_time: admitted,
            errors: error.iter().count() as u64,
            first_error: error.map(str::to_owned),
            slowest: Duration::from_millis(slowest),
        };
        let mut all = tally(1, None, 5);
        all.add(tally(2, Some("late"), 7));
        all.add(tally(3, Some("later"), 6));
        assert_eq!(all, Tally { errors: 2, ..tally(6, Some("late"), 7) });
    }
}
