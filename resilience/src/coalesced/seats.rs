//! Where callers wait, and what they are told.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tollgate_core::{StoreError, Verdict};

/// What a caller is told.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are answers, and moved once or twice")]
pub(super) enum Told {
    /// What the store said.
    Answer(Result<Verdict, StoreError>),
    /// Nothing was sent, and nobody will.
    AskYourself,
}

/// The seats of those who wait for one call. One allocation for all of them, instead of a channel each.
#[derive(Debug, Default)]
pub(super) struct Seats {
    room: Mutex<Room>,
}

#[derive(Debug, Default)]
struct Room {
    /// As many as have been used so far; those who have not been asked for anything yet may have none.
    seats: Vec<Seat>,
    /// How many have left without an answer.
    left: usize,
    /// How many wait for the call that is under way. None are added then.
    closed_at: Option<usize>,
    /// Who makes that call, and wants to know when everybody has left.
    caller: Option<Waker>,
}

#[derive(Debug, Default)]
enum Seat {
    /// Nobody has sat down yet, or what was told has been taken.
    #[default]
    Empty,
    Waiting(Waker),
    Told(Told),
    Left,
}

impl Room {
    fn seat(&mut self, number: usize) -> &mut Seat {
        if self.seats.len() <= number {
            self.seats.resize_with(number + 1, Seat::default);
        }
        &mut self.seats[number]
    }

    fn everybody_left(&self) -> bool {
        self.closed_at == Some(self.left)
    }
}

impl Seats {
    /// Nobody else comes: `count` seats, of which these numbers are still wanted.
    pub(super) fn close(&self, count: usize) -> Vec<usize> {
        let mut room = self.lock();
        room.closed_at = Some(count);
        if room.left == 0 {
            return (0..count).collect();
        }
        (0..count).filter(|number| !matches!(room.seats.get(*number), Some(Seat::Left))).collect()
    }

    /// Tells each of these numbers what it is about.
    pub(super) fn tell(&self, told: impl IntoIterator<Item = (usize, Told)>) {
        let mut wakers = Vec::new();
        let mut room = self.lock();
        for (number, told) in told {
            let seat = room.seat(number);
            match std::mem::replace(seat, Seat::Told(told)) {
                Seat::Waiting(waker) => wakers.push(waker),
                Seat::Empty => {}
                // Whoever has left stays away, and an answer is not taken back.
                earlier @ (Seat::Left | Seat::Told(_)) => *seat = earlier,
            }
        }
        drop(room);
        // Outside of the lock, which is the first thing that they will want.
        for waker in wakers {
            waker.wake();
        }
    }

    /// Whether nobody waits any more. If somebody does, `context` is woken when that changes.
    pub(super) fn everybody_left(&self, context: &Context<'_>) -> bool {
        let mut room = self.lock();
        if !room.caller.as_ref().is_some_and(|caller| caller.will_wake(context.waker())) {
            room.caller = Some(context.waker().clone());
        }
        room.everybody_left()
    }

    fn lock(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A caller on its seat.
#[derive(Debug)]
pub(super) struct Waiter {
    seats: Arc<Seats>,
    number: usize,
    /// What there was to be told has been.
    told: bool,
}

impl Waiter {
    pub(super) fn new(seats: &Arc<Seats>, number: usize) -> Self {
        Self { seats: Arc::clone(seats), number, told: false }
    }
}

impl Future for Waiter {
    type Output = Told;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Told> {
        let this = &mut *self;
        let mut room = this.seats.lock();
        let seat = room.seat(this.number);
        match seat {
            Seat::Told(_) => {
                let Seat::Told(told) = std::mem::take(seat) else { unreachable!("looked at just now") };
                this.told = true;
                Poll::Ready(told)
            }
            Seat::Waiting(waker) if waker.will_wake(context.waker()) => Poll::Pending,
            seat => {
                *seat = Seat::Waiting(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if self.told {
            return;
        }
        let caller = {
            let mut room = self.seats.lock();
            let seat = room.seat(self.number);
            *seat = Seat::Left;
            room.left += 1;
            if room.everybody_left() { room.caller.take() } else { None }
        };
        if let Some(caller) = caller {
            caller.wake();
        }
    }
}
