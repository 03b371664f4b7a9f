//! Callers that make one call after the other for some time.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::redis::subject::Failure;

/// The results of all callers of a lap.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    pub admitted: u64,
    /// Calls that were admitted before the end of the lap. The others were in flight at the end.
    pub in_time: u64,
    pub errors: u64,
    pub first_error: Option<String>,
    pub slowest: Duration,
}

/// Lets `callers` callers make one call after the other for `span`. A call returns whether it was admitted.
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
            let (mut tally, mut start) = (Tally::default(), Instant::now());
            while start < end {
                let result = call().await;
                let now = Instant::now();
                tally.slowest = tally.slowest.max(now - start);
                match result {
                    Ok(admitted) => {
                        tally.admitted += u64::from(admitted);
                        tally.in_time += u64::from(admitted && now <= end);
                    }
                    Err(error) => {
                        tally.errors += 1;
                        tally.first_error.get_or_insert_with(|| error.to_string());
                    }
                }
                start = now;
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
    fn tallies_add_up() {
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
